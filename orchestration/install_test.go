package orchestration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/twin"
)

// A trial is a home with an OpenCode that this test binary plays.
type trial struct {
	Installer
	t       *testing.T
	journal string
}

func newTrial(t *testing.T, mode string) *trial {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, ".config", "opencode")
	journal := filepath.Join(t.TempDir(), "journal")
	self := twin.Path(t)
	vars := append(os.Environ(), roleVariable+"=opencode", modeVariable+"="+mode, journalVariable+"="+journal,
		"OPENCODE_DISABLE_PROJECT_CONFIG=1", "OPENCODE_CONFIG_DIR="+dir)
	return &trial{t: t, journal: journal, Installer: Installer{
		Place:    Place{Dir: dir, Home: home},
		Settings: Settings{Dirs: []string{dir}},
		OpenCode: &OpenCode{herdrcli.New(herdrcli.Options{Bin: self, Environ: vars})},
		Data:     Data{Program: self, Version: "9.9.9", Hooks: filepath.Join(home, ".config", "herdr-link", "hooks"), Tool: Tool{"d", json.RawMessage(`{}`)}},
		Now:      func() time.Time { return time.Date(2026, 12, 1, 2, 3, 4, 0, time.FixedZone("x", 3600)) },
	}}
}

// quick are options with which OpenCode is not asked.
var quick = Options{WorkerModel: Inherit, ReviewerModel: Inherit, NoValidate: true}

func (tr *trial) install(o Options) Report {
	tr.t.Helper()
	r, err := tr.Install(tr.t.Context(), o)
	if err != nil {
		tr.t.Fatal(err)
	}
	return r
}

func (tr *trial) put(name, text string) {
	tr.t.Helper()
	path := tr.Place.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		tr.t.Fatal(err)
	}
}

// tree returns all files and folders under the home, with their texts.
func (tr *trial) tree() map[string]string {
	tr.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tr.Place.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(tr.Place.Home, path)
		rel = filepath.ToSlash(rel)
		if d.Type().IsRegular() {
			text, err := os.ReadFile(path)
			all[rel] = string(text)
			return err
		}
		all[rel] = d.Type().String()
		return nil
	})
	if err != nil {
		tr.t.Fatal(err)
	}
	return all
}

// same compares two trees.
func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for path, text := range want {
		if other, ok := got[path]; !ok {
			t.Errorf("%s: %s is gone", what, path)
		} else if other != text {
			t.Errorf("%s: %s is\n%.300s\nnot\n%.300s", what, path, other, text)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s: there is %s", what, path)
		}
	}
}

func (tr *trial) asked() (lines []string) {
	text, _ := os.ReadFile(tr.journal)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// From nothing to installed, again, and back to nothing.
func TestInstall(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	before := tr.tree()
	told := 0
	tr.Asking = func() {
		if told++; slices.ContainsFunc(tr.asked(), func(line string) bool { return strings.HasPrefix(line, "debug") }) {
			t.Error("OpenCode was asked before this was said")
		}
	}
	if r := tr.install(Options{DryRun: true}); told > 0 || !slices.Contains(r, "the hooks of the push policy would be in "+tr.Data.Hooks) {
		t.Errorf("%d, %q", told, r)
	}
	os.Remove(tr.journal)
	r := tr.install(Options{})
	if tr.Asking = nil; told != 1 {
		t.Errorf("it was said %d times that OpenCode is asked", told)
	}
	dir := tr.Place.Dir
	want := Report{
		"no model is set for the reviewers: they take the one that is active in OpenCode",
		"OpenCode was asked, and takes all six agents",
		"created   " + filepath.Join(dir, "plugins", "herdr-link-orchestration.js"),
		"created   " + filepath.Join(dir, "herdr-link", "orchestration.json"),
		"created   " + filepath.Join(dir, "herdr-link", "manifest.json"),
		"start OpenCode anew: a running one knows nothing of it",
	}
	if !slices.Equal(r, want) {
		t.Errorf("%q", r)
	}
	asked := []string{"models litellm 1 " + dir, "models litellm-responses 1 " + dir}
	for _, name := range Names() {
		asked = append(asked, "debug agent "+name+" 1 "+dir)
	}
	if got := tr.asked(); !slices.Equal(got, asked) {
		t.Errorf("OpenCode was asked %q", got)
	}
	var data struct {
		Version, Binary, HooksPath string
		Models                     struct{ Worker, Reviewer *string }
		Modes                      map[string]string
		Agents                     map[string]struct{ Mode, Model string }
	}
	installed := tr.tree()
	text := installed[".config/opencode/"+dataFile]
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatal(err)
	}
	if data.Version != "9.9.9" || data.Binary != tr.Data.Program || data.HooksPath != tr.Data.Hooks || data.Models.Worker == nil ||
		*data.Models.Worker != originWorker || data.Models.Reviewer != nil || data.Agents[sheepBuild].Model != originWorker || data.Modes[shearerLow] != "review" {
		t.Errorf("%+v", data)
	}
	if installed[".config/opencode/"+pluginFile] != string(plugin) {
		t.Error("the plugin is not as it is embedded")
	}
	if info, err := os.Stat(tr.Place.path(dataFile)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	tr.install(Options{})
	same(t, "after the second time", tr.tree(), installed)

	r, err := tr.Uninstall(t.Context())
	want = Report{
		"removed   " + filepath.Join(dir, "plugins", "herdr-link-orchestration.js"),
		"removed   " + filepath.Join(dir, "herdr-link", "orchestration.json"),
		"removed   " + filepath.Join(dir, "herdr-link", "manifest.json"),
		"start OpenCode anew: a running one still has it",
	}
	if err != nil || !slices.Equal(r, want) {
		t.Errorf("%v, %q", err, r)
	}
	delete(before, ".config") // above OpenCode's folder: it may be anybody's by now
	after := tr.tree()
	delete(after, ".config")
	same(t, "after uninstall", after, before)
	if r, err := tr.Uninstall(t.Context()); err != nil || !slices.Equal(r, Report{"nothing installed"}) {
		t.Errorf("%v, %q", err, r)
	}
}

// The options end up in the data and the manifest.
func TestInstallOptions(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	tr.OpenCode = nil
	r := tr.install(Options{WorkerModel: "p/w", AllowTools: []string{"forge_*"}, NoSessionHooks: true})
	if !slices.Contains(r, "opencode is not on PATH, so nobody has checked that it takes the agents") ||
		!slices.Contains(r, "no model is set for the reviewers: they take the one that is active in OpenCode") || len(r) != 6 {
		t.Errorf("%q", r)
	}
	var data struct {
		HooksPath *string
		Models    struct{ Worker, Reviewer *string }
		Agents    map[string]struct {
			Model      string
			Permission map[string]any
		}
	}
	if err := json.Unmarshal([]byte(tr.tree()[".config/opencode/"+dataFile]), &data); err != nil {
		t.Fatal(err)
	}
	if data.HooksPath != nil || data.Agents[sheepPlan].Model != "p/w" || data.Agents[shearerLow].Model != "" || data.Agents[shepherdBuild].Permission["forge_*"] != "allow" ||
		data.Agents[shepherdPlan].Permission["forge_*"] != nil {
		t.Errorf("%+v", data)
	}
	m, err := tr.Place.readManifest()
	if err != nil || m.Version != "9.9.9" || m.Options.WorkerModel != "p/w" || m.Options.SessionHooks || !slices.Equal(m.Options.AllowTools, []string{"forge_*"}) ||
		!slices.Equal(m.Folders, []string{"herdr-link", "plugins", "."}) {
		t.Errorf("%v, %+v", err, m)
	}
	// Another time with others: what was made before is still known.
	if r := tr.install(quick); len(r) != 4 || !strings.HasPrefix(r[0], "unchanged") || !strings.HasPrefix(r[1], "changed") || !strings.HasPrefix(r[2], "changed") {
		t.Errorf("%q", r)
	}
	if m, err := tr.Place.readManifest(); err != nil || !m.Options.SessionHooks || len(m.Folders) != 3 {
		t.Errorf("%v, %+v", err, m)
	}
}

// What is there and not ours stays, unless it is forced: then there is a copy.
func TestInstallForeign(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, text string
		before     bool // an installation of ours
		says       string
	}{
		"a plugin of that name":     {pluginFile, "export const X = 1;\n", false, "is not as herdr-link left it"},
		"an empty file":             {pluginFile, "", false, "is not as herdr-link left it"},
		"data of somebody's":        {dataFile, "{}", false, "is not as herdr-link left it"},
		"a changed plugin":          {pluginFile, string(plugin) + "\n", true, "is not as herdr-link left it"},
		"changed data":              {dataFile, "{}", true, "is not as herdr-link left it"},
		"another manifest":          {manifestFile, `{"schema":2}`, false, "it is not a manifest of herdr-link"},
		"no manifest":               {manifestFile, "hello", true, "it is not a manifest of herdr-link"},
		"a manifest that leads out": {manifestFile, `{"schema":1,"files":[{"path":"../x","sha256":""}]}`, false, "it is not a manifest of herdr-link"},
		"one with foreign folders":  {manifestFile, `{"schema":1,"folders":["../.."]}`, false, "it is not a manifest of herdr-link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "")
			if test.before {
				tr.install(quick)
			}
			tr.put(test.file, test.text)
			before := tr.tree()
			for _, dry := range []bool{true, false} {
				o := quick
				o.DryRun = dry
				if _, err := tr.Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), tr.Place.path(test.file)) {
					t.Fatalf("%v", err)
				}
				same(t, "after the refusal", tr.tree(), before)
			}
			forced := quick
			forced.Force = true
			r := tr.install(forced)
			backup := tr.Place.path(test.file) + ".backup-20261201T010304Z"
			if text, err := os.ReadFile(backup); err != nil || string(text) != test.text || !slices.Contains(r, "kept      "+backup) {
				t.Errorf("%v, %q in %q", err, text, r)
			}
			if text, err := os.ReadFile(tr.Place.path(test.file)); err != nil || string(text) == test.text {
				t.Errorf("%v, and it is still %q", err, text)
			}
			if m, err := tr.Place.readManifest(); err != nil || m == nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// A crash between the files and the manifest is mended by another run.
func TestInstallAfterCrash(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	tr.install(quick)
	want := tr.tree()
	if err := os.Remove(tr.Place.path(manifestFile)); err != nil {
		t.Fatal(err)
	}
	tr.install(quick)
	got := tr.tree()
	delete(got, ".config/opencode/"+manifestFile) // it knows of no folders that were made
	delete(want, ".config/opencode/"+manifestFile)
	same(t, "after it", got, want)
}

func TestInstallLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("making a link takes a privilege there")
	}
	for name, at := range map[string]string{
		"the configuration folder": ".", "the folder above": "..", "the plugins": "plugins", "our folder": "herdr-link", "the plugin": pluginFile, "the manifest": manifestFile,
	} {
		tr := newTrial(t, "")
		elsewhere := t.TempDir()
		path := tr.Place.path(at)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		target := elsewhere
		if strings.Contains(at, ".js") {
			target = filepath.Join(elsewhere, "file")
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			o := quick
			o.Force = force
			if _, err := tr.Install(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nothing is written through links") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, err := os.ReadDir(elsewhere); err != nil || len(all) > 0 {
			t.Errorf("%s: %v, %v", name, err, all)
		}
	}
	// What stands above the home, or above a folder outside it, is the system's.
	tr := newTrial(t, "")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	tr.Place.Dir = filepath.Join(link, "opencode")
	tr.install(quick)
	tr.Place.Home = link // even if that is the home
	tr.install(quick)
	tr.Place.Home = ""
	tr.Place.Dir = link
	if _, err := tr.Install(t.Context(), quick); err == nil {
		t.Error("written through a link outside the home")
	}
}

// The npm package defines the same names.
func TestInstallOldPackage(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	const text = "{\n  // \"plugin\"\n  \"plugin\": [\"opencode-herdr-orchestration@0.3.4\"], // mine\n}\n"
	tr.put("opencode.jsonc", text)
	_, err := tr.Install(t.Context(), quick)
	if err == nil || !strings.Contains(err.Error(), "opencode.jsonc names the package opencode-herdr-orchestration") {
		t.Fatalf("%v", err)
	}
	forced := quick
	forced.Force = true
	tr.install(forced)
	if got := tr.tree()[".config/opencode/opencode.jsonc"]; got != text {
		t.Errorf("%q", got)
	}
}

// Nothing of the user's is touched, comments included, from nothing to nothing.
func TestInstallLeavesTheRest(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	tr.put("opencode.jsonc", "{ /* mine */ \"agent\": {\"sheep-plan\": {}}, }\n")
	tr.put("agents/sheep-plan.md", "---\n---\n")
	tr.put("plugins/other.js", "")
	before := tr.tree()
	tr.install(Options{})
	if _, err := tr.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "after all", tr.tree(), before)
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	before := tr.tree()
	dry := quick
	dry.DryRun = true
	r := tr.install(dry)
	if len(r) != 5 || !strings.HasPrefix(r[0], "create    "+tr.Place.path(pluginFile)+"  +") || !strings.HasSuffix(r[0], " -0 lines") || r[4] != "nothing was written" {
		t.Errorf("%q", r)
	}
	same(t, "after it", tr.tree(), before)
	tr.install(quick)
	before = tr.tree()
	dry.WorkerModel = "p/w"
	r = tr.install(dry)
	if len(r) != 5 || r[0] != "unchanged "+tr.Place.path(pluginFile) || r[1] != "change    "+tr.Place.path(dataFile)+"  +3 -1 lines" {
		t.Errorf("%q", r)
	}
	same(t, "after another", tr.tree(), before)
}

// Whatever OpenCode has against it: all is as it was.
func TestValidationFails(t *testing.T) {
	t.Parallel()
	for mode, says := range map[string]string{
		"other mode": `as "shearer-review-medium" with mode "subagent", not primary`,
		"other name": `as "build" with mode "primary"`,
		"no JSON":    "does not show the agent shearer-review-medium",
		"fails":      "opencode debug agent shearer-review-medium failed: [91mError: [0m no way\n",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mode)
			fail := func(what string, o Options) {
				t.Helper()
				before := tr.tree()
				_, err := tr.Install(t.Context(), o)
				if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "Everything is as it was") {
					t.Errorf("%s: %v", what, err)
				}
				same(t, what, tr.tree(), before)
			}
			fail("the first time", Options{})
			tr.install(quick)
			fail("an update", Options{WorkerModel: "p/w"})
			tr.put(pluginFile, "mine")
			fail("forced", Options{Force: true})
		})
	}
}

// A process that is told to end takes back what it has written, and does not
// wait for OpenCode.
func TestInstallCancelled(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "hang")
	before := tr.tree()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := tr.Install(ctx, Options{WorkerModel: Inherit, ReviewerModel: Inherit})
		ended <- err
	}()
	for end := time.Now().Add(20 * time.Second); len(tr.asked()[0]) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("OpenCode is not asked")
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	same(t, "after it", tr.tree(), before)
}

// A file that another program changes at the same time is not lost.
func TestInstallRaced(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	tr.Place.beforeRename = func(path string) {
		if path == tr.Place.path(manifestFile) {
			tr.put(manifestFile, "theirs")
		}
	}
	_, err := tr.Install(t.Context(), quick)
	if !errors.Is(err, errBusy) {
		t.Fatalf("%v", err)
	}
	got := tr.tree()
	if got[".config/opencode/"+manifestFile] != "theirs" || got[".config/opencode/"+pluginFile] != "" || got[".config/opencode/"+dataFile] != "" {
		t.Errorf("%q", got)
	}
}

// What was changed stays, and is named.
func TestUninstallModified(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	tr.install(quick)
	tr.put(dataFile, "{}")
	r, err := tr.Uninstall(t.Context())
	if err != nil || !slices.Contains(r, "kept      "+tr.Place.path(dataFile)+": it is not as herdr-link left it") {
		t.Errorf("%v, %q", err, r)
	}
	got := tr.tree()
	if got[".config/opencode/"+dataFile] != "{}" || got[".config/opencode/"+pluginFile] != "" || got[".config/opencode/"+manifestFile] != "" || got[".config/opencode/plugins"] != "" {
		t.Errorf("%q", got)
	}
	tr = newTrial(t, "")
	tr.install(quick)
	if err := os.Remove(tr.Place.path(pluginFile)); err != nil {
		t.Fatal(err)
	}
	if r, err := tr.Uninstall(t.Context()); err != nil || r[0] != "gone      "+tr.Place.path(pluginFile) {
		t.Errorf("%v, %q", err, r)
	}
	tr.put(manifestFile, "{}")
	if _, err := tr.Uninstall(t.Context()); !errors.Is(err, errForeign) {
		t.Errorf("%v", err)
	}
}

// A file that is too large, or none, is not read.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := readFile(dir); err == nil {
		t.Error("a folder was read")
	}
	if text, err := readFile(filepath.Join(dir, "none")); text != nil || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(large); err == nil {
		t.Error("a large file was read")
	}
}

// The push policy comes last. If it fails, nothing has happened.
func TestPolicy(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "")
	before := tr.tree()
	broken := errors.New("git is too old")
	there := false
	tr.Policy = func(context.Context) (string, error) {
		_, err := os.Stat(tr.Place.path(manifestFile))
		there = err == nil
		return "", broken
	}
	if _, err := tr.Install(t.Context(), quick); !errors.Is(err, broken) || !there {
		t.Errorf("%v, %t", err, there)
	}
	same(t, "after it", tr.tree(), before)
	dry := quick
	dry.DryRun = true
	tr.install(dry)
	tr.Policy = func(context.Context) (string, error) { return "policy", nil }
	if r := tr.install(quick); !slices.Contains(r, "policy") {
		t.Errorf("%q", r)
	}
	for _, first := range []string{"removed   " + tr.Place.path(pluginFile), "nothing installed"} {
		if r, err := tr.Uninstall(t.Context()); err != nil || r[0] != first || r[len(r)-1] != "policy" {
			t.Errorf("%v, %q", err, r)
		}
	}
	tr.Policy = func(context.Context) (string, error) { return "", broken }
	if _, err := tr.Uninstall(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// A folder that cannot be written to has a word on what to do.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for _, reason := range []error{fs.ErrPermission, syscall.EACCES, syscall.EROFS} {
		err := unwritable(fmt.Errorf("x: %w", &fs.PathError{Op: "mkdir", Path: "/home/.config", Err: reason}))
		if !strings.HasPrefix(err.Error(), "nothing was written: /home/.config: ") || !strings.Contains(err.Error(), "--config-dir") {
			t.Errorf("%v", err)
		}
	}
	if err := unwritable(errBusy); err != errBusy {
		t.Errorf("%v", err)
	}
	if os.Getuid() <= 0 {
		t.Skip("no folder is locked to this user")
	}
	tr := newTrial(t, "")
	if err := os.Chmod(tr.Place.Home, 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(tr.Place.Home, 0o700)
	if _, err := tr.Install(t.Context(), quick); err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("%v", err)
	}
}
