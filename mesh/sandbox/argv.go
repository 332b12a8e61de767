package sandbox

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"herdr-link/mesh/fault"
)

// A Kind is what a step may reach.
type Kind int

const (
	Gate   Kind = iota // the plan or a gate: the worktree, no network
	Web                // the bootstrap of web: the worktree's folder web alone, and the network
	Python             // the bootstrap of Python: the input lock alone, and the network
)

// DefaultNode is the version of node that is on a step's PATH (mesh.md §6.2).
const DefaultNode = "22.22.2"

// A Step is the surroundings of one command. All paths are absolute, clean and
// resolved.
type Step struct {
	Kind     Kind
	Worktree string   // is there to be written, also at that path; none for Python
	GitDir   string   // the repository's common one, there to be read; for Gate only
	Fixed    []string // files of the worktree that are there to be read; for Gate only
	Home     string   // a scratch folder of the run: the command's HOME
	Lock     string   // the copy of a requirements.lock; for Python only
	UserHome string   // where the user's uv, mise and node are
	Environ  []string // as os.Environ gives it; five names of it are passed on
	Node     string   // "": DefaultNode
	Head     int      // how much of the beginning of stdout is kept
}

func (s *Step) online() bool { return s.Kind != Gate }

// Where things are inside.
const (
	home   = "/gate-home"
	inputs = "/gate-inputs"
)

// isolation is what every sandbox is cut off from, before its network.
var isolation = []string{
	"--die-with-parent", "--new-session", "--unshare-user-try", "--unshare-pid", "--unshare-ipc",
	"--unshare-uts", "--unshare-cgroup-try",
}

// roots are what a system may have beside /usr, as folders or as links into it.
// Without the loader in one of them nothing starts.
var roots = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// etc is all that a sandbox shows of /etc.
var etc = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "group", "hosts",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "pki", "protocols",
	"services", "ssl",
}

// authorities are the files in which systems keep the certificates that they trust.
var authorities = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, Red Hat
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // the same, from Fedora 43 on
}

// programs are the folders of the user's home that a sandbox shows. uv keeps passwords
// beside its two.
var programs = []string{"/.local/bin", "/.local/share/uv/python", "/.local/share/uv/tools", "/.local/share/mise"}

// passed are the variables that a command gets from this process.
var passed = []string{"USER", "LOGNAME", "LANG", "LC_ALL", "TERM"}

// fixed are the places that no mount of a step may cover.
var fixed = append([]string{"/usr", "/etc", "/proc", "/dev", "/tmp", home, inputs}, roots...)

// A look tells what stands at a path of this system, and where it points if it
// is a symbolic link. Errors are those of os.Lstat.
type look func(path string) (mode fs.FileMode, target string, err error)

// A mount is a path of this system and where it is seen inside.
type mount struct{ how, from, to string }

// system is the beginning of every command line: what is cut off, and the parts
// of this system that are shown.
func system(look look, root, online bool) (args []string) {
	args = slices.Clone(isolation)
	if !online {
		args = append(args, "--unshare-net")
	}
	args = append(args, "--cap-drop", "ALL", "--ro-bind", "/usr", "/usr")
	for _, p := range roots {
		switch mode, target, err := look(p); {
		case err != nil:
		case mode&fs.ModeSymlink != 0:
			args = append(args, "--symlink", target, p)
		case mode.IsDir():
			args = append(args, "--ro-bind", p, p)
		}
	}
	args = append(args, "--dir", "/etc")
	for _, name := range etc {
		args = append(args, "--ro-bind-try", "/etc/"+name, "/etc/"+name)
	}
	args = append(args, "--proc", "/proc")
	if root { // /proc/sys is the system's, and its files are root's to write, inside as well
		args = append(args, "--remount-ro", "/proc")
	}
	return append(args, "--dev", "/dev", "--tmpfs", "/tmp")
}

// argv is bubblewrap's command line for a command in that step (mesh.md §6.1); root
// says whether this user is.
func (s *Step) argv(look look, root bool, command []string) ([]string, error) {
	mounts, err := s.mounts(look)
	if err != nil {
		return nil, err
	}
	var tools []mount
	for _, name := range programs {
		tools = append(tools, mount{"--ro-bind-try", s.UserHome + name, s.UserHome + name})
	}
	all := slices.Concat(mounts, tools, []mount{{"--bind", s.Home, home}})
	args := system(look, root, s.online())
	for _, dir := range parents(all) {
		args = append(args, "--dir", dir)
	}
	for _, m := range all {
		args = append(args, m.how, m.from, m.to)
	}
	args = append(args, "--clearenv")
	for _, v := range s.environ(look) {
		args = append(args, "--setenv", v[0], v[1])
	}
	dir := s.Worktree
	if s.Kind == Python {
		dir = home
	}
	args = append(args, "--chdir", dir, "--")
	return append(args, command...), nil
}

// isVersion reports whether s is three numbers with dots between them.
func isVersion(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 3 && !slices.ContainsFunc(parts, func(p string) bool { return p == "" || strings.Trim(p, "0123456789") != "" })
}

// mounts are the step's own, or why it cannot have them.
func (s *Step) mounts(look look) (mounts []mount, err error) {
	paths := []string{s.UserHome, s.Home}
	switch s.Kind {
	case Gate:
		paths = append(paths, s.Worktree, s.GitDir)
		mounts = []mount{{"--bind", s.Worktree, s.Worktree}, {"--ro-bind", s.GitDir, s.GitDir}}
		if below(s.Worktree, s.GitDir) { // a mount covers what was mounted below it before
			slices.Reverse(mounts)
		}
		for _, file := range s.Fixed {
			if !below(file, s.Worktree) {
				return nil, fault.New("VERIFY_UNAVAILABLE", "a file of the worktree is outside it")
			}
			mounts = append(mounts, mount{"--ro-bind", file, file})
		}
		paths = append(paths, s.Fixed...)
	case Web:
		paths = append(paths, s.Worktree)
		mounts = []mount{{"--bind", s.Worktree + "/web", s.Worktree + "/web"}}
	case Python:
		paths = append(paths, s.Lock)
		mounts = []mount{{"--ro-bind", s.Lock, inputs + "/" + path.Base(s.Lock)}}
	}
	for _, p := range paths {
		if !path.IsAbs(p) || path.Clean(p) != p {
			return nil, fault.New("VERIFY_UNAVAILABLE", "a path that the sandbox needs is not absolute or not clean: %q", p)
		}
	}
	if strings.Contains(s.UserHome, ":") {
		return nil, fault.New("VERIFY_UNAVAILABLE", "HOME has a colon, so that no PATH can name a folder in it")
	}
	if s.Node != "" && !isVersion(s.Node) {
		return nil, fault.New("VERIFY_UNAVAILABLE", "HERDR_LINK_VERIFY_NODE is not a version such as %s", DefaultNode)
	}
	for _, m := range mounts {
		for _, f := range fixed {
			reserved := f == "/proc" || f == "/dev" || f == home
			if m.from == m.to && (m.to == f || below(f, m.to) || reserved && below(m.to, f)) {
				return nil, fault.New("VERIFY_UNAVAILABLE", "%s cannot be shown in the sandbox: it has its own %s", m.to, f)
			}
		}
	}
	if !s.online() {
		return mounts, nil
	}
	resolver, err := regular(look, "/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	return append([]mount{{"--ro-bind", resolver, "/etc/resolv.conf"}}, mounts...), nil
}

// environ is all of a command's environment (mesh.md §6.2). uv and mise have the
// Python and the node of this host, and fetch no other one. With the network, uv and
// node trust whom this system trusts, as its operator may have one more to trust.
func (s *Step) environ(look look) (vars [][2]string) {
	for _, name := range passed {
		value, ok := "", false
		for _, v := range s.Environ { // the last one counts, as for os/exec
			if n, text, _ := strings.Cut(v, "="); n == name {
				value, ok = text, true
			}
		}
		if ok {
			vars = append(vars, [2]string{name, value})
		}
	}
	vars = append(vars, [][2]string{
		{"PATH", s.UserHome + "/.local/bin:" + s.UserHome + "/.local/share/mise/installs/node/" +
			cmp.Or(s.Node, DefaultNode) + "/bin:/usr/local/bin:/usr/bin:/bin"},
		{"HOME", home},
		{"TMPDIR", "/tmp"},
		{"XDG_RUNTIME_DIR", "/tmp"},
		{"CI", "1"},
		{"NO_COLOR", "1"},
		{"PYTHONDONTWRITEBYTECODE", "1"},
		{"UV_CACHE_DIR", home + "/.cache/uv"},
		{"UV_PYTHON_INSTALL_DIR", s.UserHome + "/.local/share/uv/python"},
		{"UV_PYTHON_DOWNLOADS", "never"},
		{"MISE_CACHE_DIR", home + "/.cache/mise"},
		{"MISE_CONFIG_DIR", home + "/.config/mise"},
		{"MISE_DATA_DIR", s.UserHome + "/.local/share/mise"},
		{"MISE_OFFLINE", "1"},
		{"GIT_OPTIONAL_LOCKS", "0"},
		{"npm_config_audit", "false"},
		{"npm_config_fund", "false"},
		{"npm_config_ignore_scripts", "true"},
		{"npm_config_userconfig", home + "/.no-user-npmrc"},
		{"npm_config_globalconfig", home + "/.no-global-npmrc"},
	}...)
	if !s.online() {
		return append(vars, [2]string{"UV_OFFLINE", "1"})
	}
	if s.Kind == Web { // else npm runs the program that a repository which it has fetched names as git
		vars = append(vars, [2]string{"npm_config_git", "/bin/false"})
	}
	if file := trusted(look); file != "" {
		vars = append(vars, [2]string{"SSL_CERT_FILE", file}, [2]string{"NODE_EXTRA_CA_CERTS", file})
	}
	return vars
}

// trusted is the file of this system's authorities, or "" if there is none that a
// sandbox shows: then a program has its own.
func trusted(look look) string {
	for _, name := range authorities {
		file, err := regular(look, name)
		if err != nil {
			continue
		}
		for _, dir := range []string{"/usr", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"} {
			if below(file, dir) {
				return name
			}
		}
	}
	return ""
}

// parents are the folders above the mounts that a sandbox lacks, shallow first.
func parents(mounts []mount) (dirs []string) {
	for _, m := range mounts {
		for dir := path.Dir(m.to); dir != "/" && !shown(dir); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	return slices.Compact(dirs)
}

// shown reports whether a sandbox has that folder of its own. What is below /usr
// and the like, which are shown whole, is there as it is outside.
func shown(dir string) bool {
	if slices.Contains([]string{"/etc", "/proc", "/dev", "/tmp"}, dir) {
		return true
	}
	for _, p := range append([]string{"/usr"}, roots...) {
		if dir == p || below(dir, p) {
			return true
		}
	}
	return false
}

// below reports whether p is inside the folder dir, however deep.
func below(p, dir string) bool {
	return p != dir && strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// maxLinks is how many symbolic links are followed, as many as Linux does.
const maxLinks = 40

// regular follows a path through symbolic links on any component, to a regular
// file (mesh.md §6.3).
func regular(look look, name string) (string, error) {
	refused := func(why string) (string, error) {
		return "", fault.New("VERIFY_UNAVAILABLE", "%s %s, so that a step with the network has no resolver", name, why)
	}
	at, rest := "/", strings.Split(name[1:], "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0]) // ".." is of a folder without links
		rest = rest[1:]
		mode, target, err := look(next)
		switch {
		case err != nil:
			return refused("leads to nothing that can be read")
		case mode&fs.ModeSymlink == 0:
			at = next
			if len(rest) == 0 && !mode.IsRegular() {
				return refused("is no regular file")
			}
			continue
		}
		if links++; links > maxLinks {
			return refused("is a chain of too many links")
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return at, nil
}
