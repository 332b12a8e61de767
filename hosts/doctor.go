package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// What a finding can be.
const (
	OK   = "ok"
	Warn = "warn"
	Fail = "fail" // the host does not get herdr-link as it is
)

// A Finding is how it is with one host, in a line. It may hold what others
// wrote into their files.
type Finding struct {
	Host   string
	State  string // OK, Warn or Fail
	Detail string
	Fix    string            // what to do, if anything
	Found  bool              // the host is on this machine
	Known  bool              // there is something of herdr-link in its files
	Serves bool              // its files make it start a server
	Env    map[string]string // variables that its entry gives to the server
	// Entries are those of ours, the user's before the project's.
	Entries []Entry
}

// add notes one more thing about the host; the worst decides.
func (f *Finding) add(state, detail, fix string) {
	if severity(state) > severity(f.State) {
		f.State = state
	}
	f.Detail = join(f.Detail, detail)
	if fix != "" && !strings.Contains(f.Fix, fix) {
		f.Fix = join(f.Fix, fix)
	}
}

func severity(state string) int { return slices.Index([]string{OK, Warn, Fail}, state) }

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// Examine looks at the user's files of a host, at those of the project, and at
// what else decides whether the host starts herdr-link. It starts nothing and
// changes nothing. The host must have a row.
func (m Machine) Examine(h Host, o Options) Finding {
	f := Finding{Host: h.Name, State: OK}
	o.Project = false
	user, project := m.Status(h, o), Status{State: "absent"}
	if m.ownProject(h) {
		o.Project = true
		project = m.Status(h, o)
	}
	f.Found = user.Found
	f.Known = user.State != "absent" || project.State != "absent" || user.doubled || project.doubled
	version := m.version(h)
	if version != "" {
		f.add(OK, version, "")
	}
	m.registered(&f, h, user, project)
	for _, s := range []Status{user, project} {
		if filepath.IsAbs(s.program) && !s.gone && !sameFile(s.program, o.Program) {
			f.add(OK, "starts "+m.short(s.program), "")
		}
		if s.entry != nil {
			f.Serves = true
			f.Entries = append(f.Entries, *s.Entry)
			m.entry(&f, h, s)
		}
	}
	if user.adapter || project.adapter {
		f.add(OK, "by its adapter, which passes its environment", "")
	}
	if user.adapter && project.adapter {
		f.add(Warn, "it is there twice, for the user and for the project", "herdr-link uninstall --project "+h.Name)
	}
	for _, two := range [][2]Status{{user, project}, {project, user}} {
		if two[0].adapter && two[1].entry != nil && !two[1].adapter && offersLink(two[1].entry) {
			f.add(Warn, "there is an entry beside the adapter, in "+m.short(two[1].File), "remove one of them")
		}
	}
	m.pending(&f, h, user, project)
	f.Env = map[string]string{}
	for _, s := range []Status{user, project} {
		for name, value := range environmentOf(s.entry) {
			f.Env[name] = value
		}
	}
	return f
}

// ownProject reports whether this folder has a file of the host that is not the
// user's own.
func (m Machine) ownProject(h Host) bool {
	file := m.inProject(h.project)
	return h.HasProject() && file != m.pick(h.file) && exists(file) ||
		h.adapter != nil && len(h.adapter.project) > 0 && exists(m.inProject(h.adapter.project)) && m.inProject(h.adapter.project) != m.pick(h.adapter.file)
}

// registered says where herdr-link stands, and what is wrong with it there.
func (m Machine) registered(f *Finding, h Host, user, project Status) {
	if user.State == "absent" && project.State == "absent" {
		f.add(Warn, "not registered", "herdr-link install "+h.Name)
	}
	for _, s := range []Status{user, project} {
		install, where := "herdr-link install "+h.Name, m.short(s.File)
		if s.File == project.File && s.File != "" {
			install = "herdr-link install --project " + h.Name
		}
		switch s.State {
		case "current":
			f.add(OK, "registered in "+where, "")
		case "old":
			state := Warn
			if s.gone {
				state = Fail
			}
			f.add(state, "old in "+where, install)
		case "foreign":
			f.add(Fail, "what stands under our name in "+where+" is not ours", "rename it, or "+install+" --force")
		case "unreadable":
			f.add(Fail, where+" cannot be read", "mend that file, or put the entry there yourself: herdr-link install --print "+h.Name)
		}
		for _, r := range s.Remarks {
			state, fix := OK, ""
			if s.doubled && (strings.HasPrefix(r, secondEntry) || strings.Contains(r, "beside the adapter")) {
				state, fix = Warn, "remove that entry"
			}
			f.add(state, strings.ReplaceAll(r, m.Home+string(filepath.Separator), "~"+string(filepath.Separator)), fix)
		}
	}
}

// entry says what the server gets and how its tools are listed.
func (m Machine) entry(f *Finding, h Host, s Status) {
	env, e := environmentOf(s.entry), s.entry
	if e["enabled"] == false || e["disabled"] == true {
		f.add(Warn, "switched off in its entry", "switch it on there")
	}
	switch {
	case !m.withoutMCP(h):
	case s.adapter:
		f.add(Warn, "this version has no MCP, so its entry does nothing", "update it to 1.6 or newer")
	default:
		f.add(Fail, "this version has no MCP, so the entry does nothing", "herdr-link install pi")
	}
	if !filepath.IsAbs(s.program) && s.program != "" && m.program([]string{s.program}) == "" {
		f.add(Warn, s.program+" is not on PATH", "put it there, or herdr-link install "+h.Name)
	}
	said := s.Entry.String()
	if s.adapter {
		said = "and an entry in " + m.short(s.Entry.File) + ", " + said
	}
	f.add(OK, said, "")
	m.environment(f, h, e, env)
	switch {
	case slices.Contains(commandOf(e), "--eager") || env["HERDR_LINK_EAGER"] == "1":
		f.add(OK, "all tools from the start", "")
	case h.refresh == "yes":
		f.add(OK, "lists tools again", "")
	default:
		f.add(OK, "lists tools again: "+h.refresh, "")
	}
	if o := (Options{Project: s.File == m.inProject(h.project)}); m.asks(h, o) {
		f.add(OK, "asks before each call", "")
	}
}

// environment says which of Herdr's variables the server gets.
func (m Machine) environment(f *Finding, h Host, e map[string]any, env map[string]string) {
	for _, name := range []string{"HERDR_PANE_ID", "HERDR_SOCKET_PATH", "HERDR_SESSION"} {
		if v := env[name]; v != "" && !strings.Contains(v, "$") {
			f.add(Warn, name+" is fixed in its entry, for every pane", "herdr-link install "+h.Name)
		}
	}
	switch h.passes {
	case "all":
		f.add(OK, "passes its environment", "")
	case "named":
		l, _ := e["env_vars"].([]any)
		var lost []string
		for _, name := range herdrVars[:3] {
			if env[name] == "" && !slices.Contains(l, any(name)) {
				lost = append(lost, name)
			}
		}
		if len(lost) > 0 {
			f.add(Fail, "does not pass "+strings.Join(lost, ", "), "herdr-link install "+h.Name)
		} else {
			f.add(OK, "passes HERDR_* by name", "")
		}
	default:
		f.add(OK, "passes HERDR_*: not known", "")
	}
}

// pending says what the host still waits for, as far as its files tell.
func (m Machine) pending(f *Finding, h Host, user, project Status) {
	switch h.Name {
	case "claude":
		m.pendingClaude(f, h, project)
	case "codex":
		if project.entry == nil {
			return
		}
		for dir := range m.above() {
			text, _ := read(m.pick(h.file))
			v, _, _ := getTOML(text, []string{"projects", dir})
			if t, _ := v.(map[string]any); t["trust_level"] == "trusted" {
				return
			}
		}
		f.add(Warn, "this folder is not trusted, so the project's file does not count", "start codex here and trust it")
	case "gemini":
		if (user.entry != nil || project.entry != nil) && !m.trustedByGemini(h) {
			f.add(Warn, "this folder is not trusted, so it starts no server here", "start gemini here and trust it")
		}
	case "amp":
		if project.entry != nil {
			f.add(OK, "whether the project's server was approved is not known (amp mcp approve)", "")
		}
	}
}

// pendingClaude knows where Claude Code 2.1.332 keeps approvals: in settings,
// and older ones in its own file, a member a folder.
func (m Machine) pendingClaude(f *Finding, h Host, project Status) {
	home, _ := read(m.pick(h.file))
	folders, _ := wholeJSON(home)["projects"].(map[string]any)
	var settings []map[string]any
	for _, file := range []string{m.pick(h.grant.file), m.inProject([]string{".claude/settings.json"}), m.inProject([]string{".claude/settings.local.json"})} {
		if text, err := read(file); err == nil {
			settings = append(settings, wholeJSON(text))
		}
	}
	for dir := range m.above() {
		t, _ := folders[dir].(map[string]any)
		settings = append(settings, t)
		if names(t["disabledMcpServers"], key) {
			f.add(Warn, "switched off for this folder", "switch it on with /mcp")
		}
		if servers, _ := t["mcpServers"].(map[string]any); servers["herdr-link"] != nil {
			f.add(Warn, secondEntry+", for this folder in "+m.short(m.pick(h.file)), "claude mcp remove -s local herdr-link")
		}
	}
	if project.entry == nil {
		return
	}
	has := func(member string) bool {
		return slices.ContainsFunc(settings, func(t map[string]any) bool {
			return names(t[member], key) || member == "enabledMcpjsonServers" && t["enableAllProjectMcpServers"] == true
		})
	}
	switch {
	case has("disabledMcpjsonServers"):
		f.add(Warn, "the project's server was rejected", "claude mcp reset-project-choices, then approve it")
	case !has("enabledMcpjsonServers"):
		f.add(Warn, "the project's server waits for approval", "start claude here and approve it")
	}
}

// wholeJSON returns what a host's file has, or nothing.
func wholeJSON(text []byte) (m map[string]any) {
	if f, err := parseJSON(text); err == nil {
		_ = json.Unmarshal(f.pure, &m)
	}
	return m
}

func names(v any, name string) bool {
	l, _ := v.([]any)
	return slices.Contains(l, any(name))
}

// trustedByGemini decides as Gemini CLI 0.61.0 does, but for what an editor
// tells it: the longest rule that holds for the folder counts.
func (m Machine) trustedByGemini(h Host) bool {
	if m.Getenv("GEMINI_RESTRICTED_MODE") == "true" || m.Getenv("GEMINI_CLI_TRUST_WORKSPACE") == "false" {
		return false
	}
	if m.Getenv("GEMINI_CLI_TRUST_WORKSPACE") == "true" {
		return true
	}
	settings := m.pick(h.file)
	text, _ := read(settings)
	if on, _, _ := getJSON(text, []string{"security", "folderTrust", "enabled"}); on == false {
		return true
	}
	file := m.Getenv("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
	if file == "" {
		file = filepath.Join(filepath.Dir(settings), "trustedFolders.json")
	}
	text, _ = read(file)
	longest, trusted := -1, false
	for dir, level := range wholeJSON(text) {
		at := dir
		if level == "TRUST_PARENT" {
			at = filepath.Dir(dir)
		}
		if len(dir) > longest && inside(resolved(m.Dir), resolved(at)) {
			longest, trusted = len(dir), level == "TRUST_FOLDER" || level == "TRUST_PARENT"
		}
	}
	return trusted
}

func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

// above yields the project's folder and all above it: hosts that keep something
// for a folder mean the one that they were started in, or its repository.
func (m Machine) above() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for dir := m.Dir; yield(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		}
	}
}

// short writes a path below the home folder with a tilde.
func (m Machine) short(path string) string {
	if rel, err := filepath.Rel(m.Home, path); err == nil && path != "" && inside(path, m.Home) {
		return filepath.Join("~", rel)
	}
	return path
}

// version returns the version of a host that came as a package of npm: it
// stands in the package.json above its program. The host is not started.
func (m Machine) version(h Host) string {
	path, err := filepath.EvalSymlinks(m.program(h.programs))
	if err != nil || path == "" {
		return ""
	}
	for range 4 {
		path = filepath.Dir(path)
		text, err := read(filepath.Join(path, "package.json"))
		if err != nil {
			continue
		}
		var p struct {
			Version string
			Bin     any
		}
		if json.Unmarshal(text, &p) == nil && p.Bin != nil && len(p.Version) < 40 {
			return p.Version
		}
		return ""
	}
	return ""
}

// older reports whether a version is known and below major.minor.
func older(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && (x < major || x == major && y < minor)
}

// withoutMCP reports whether the host is known to be too old for an entry.
func (m Machine) withoutMCP(h Host) bool { return h.Name == "pi" && older(m.version(h), 1, 6) }

// Of returns the host whose program or script has that path or name, or "".
func Of(program string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(Base(program), ".js"), ".mjs")
	for _, h := range table {
		if slices.Contains(h.programs, name) {
			return h.Name
		}
	}
	return ""
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
