package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"herdr-link/mesh/fault"
)

// A system of a table: what stands at a path. "/" is a folder, "-" a regular
// file, anything else where a link points.
type paths map[string]string

func (p paths) look(path string) (fs.FileMode, string, error) {
	switch what, ok := p[path]; {
	case path == "/":
		return fs.ModeDir, "", nil
	case !ok:
		return 0, "", fs.ErrNotExist
	case what == "/":
		return fs.ModeDir, "", nil
	case what == "-":
		return 0, "", nil
	default:
		return fs.ModeSymlink, what, nil
	}
}

// merged is what most systems are today.
var merged = paths{
	"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64",
	"/etc": "/", "/etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf",
	"/run": "/", "/run/systemd": "/", "/run/systemd/resolve": "/", "/run/systemd/resolve/stub-resolv.conf": "-",
}

const (
	isolated = "--die-with-parent --new-session --unshare-user-try --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try "
	shownEtc = `--dir /etc
--ro-bind-try /etc/alternatives /etc/alternatives
--ro-bind-try /etc/ca-certificates /etc/ca-certificates
--ro-bind-try /etc/ca-certificates.conf /etc/ca-certificates.conf
--ro-bind-try /etc/crypto-policies /etc/crypto-policies
--ro-bind-try /etc/group /etc/group
--ro-bind-try /etc/hosts /etc/hosts
--ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
--ro-bind-try /etc/ld.so.conf /etc/ld.so.conf
--ro-bind-try /etc/ld.so.conf.d /etc/ld.so.conf.d
--ro-bind-try /etc/localtime /etc/localtime
--ro-bind-try /etc/nsswitch.conf /etc/nsswitch.conf
--ro-bind-try /etc/passwd /etc/passwd
--ro-bind-try /etc/pki /etc/pki
--ro-bind-try /etc/protocols /etc/protocols
--ro-bind-try /etc/services /etc/services
--ro-bind-try /etc/ssl /etc/ssl
--proc /proc --dev /dev --tmpfs /tmp
`
	mergedRoots = `--cap-drop ALL --ro-bind /usr /usr
--symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64
`
	toolMounts = `--ro-bind-try /home/u/.local/bin /home/u/.local/bin
--ro-bind-try /home/u/.local/share/uv/python /home/u/.local/share/uv/python
--ro-bind-try /home/u/.local/share/uv/tools /home/u/.local/share/uv/tools
--ro-bind-try /home/u/.local/share/mise /home/u/.local/share/mise
--bind /home/u/state/gate-sandbox-homes/r /gate-home
--clearenv
`
	environment = `--setenv PATH /home/u/.local/bin:/home/u/.local/share/mise/installs/node/22.22.2/bin:/usr/local/bin:/usr/bin:/bin
--setenv HOME /gate-home --setenv TMPDIR /tmp --setenv XDG_RUNTIME_DIR /tmp --setenv CI 1 --setenv NO_COLOR 1
--setenv PYTHONDONTWRITEBYTECODE 1 --setenv UV_CACHE_DIR /gate-home/.cache/uv
--setenv UV_PYTHON_INSTALL_DIR /home/u/.local/share/uv/python --setenv UV_PYTHON_DOWNLOADS never
--setenv MISE_CACHE_DIR /gate-home/.cache/mise --setenv MISE_CONFIG_DIR /gate-home/.config/mise
--setenv MISE_DATA_DIR /home/u/.local/share/mise --setenv MISE_OFFLINE 1 --setenv GIT_OPTIONAL_LOCKS 0
--setenv npm_config_audit false --setenv npm_config_fund false --setenv npm_config_ignore_scripts true
--setenv npm_config_userconfig /gate-home/.no-user-npmrc --setenv npm_config_globalconfig /gate-home/.no-global-npmrc
`
)

// beside is that system with other paths, too.
func (p paths) beside(other paths) paths {
	all := maps.Clone(p)
	maps.Copy(all, other)
	return all
}

func TestArgv(t *testing.T) {
	t.Parallel()
	step := Step{Home: "/home/u/state/gate-sandbox-homes/r", UserHome: "/home/u"}
	gate := func(worktree, git string) *Step {
		s := step
		s.Worktree, s.GitDir = worktree, git
		return &s
	}
	with := func(change func(s *Step)) *Step {
		s := gate("/srv/w", "/srv/r/.git")
		change(s)
		return s
	}
	for name, tc := range map[string]struct {
		step *Step
		host paths
		want string
		root bool
	}{
		"a gate": {gate("/home/u/w/one", "/home/u/r/.git"), merged, isolated + "--unshare-net " + mergedRoots + shownEtc + `
--dir /home --dir /home/u --dir /home/u/.local --dir /home/u/r --dir /home/u/w --dir /home/u/.local/share --dir /home/u/.local/share/uv
--bind /home/u/w/one /home/u/w/one --ro-bind /home/u/r/.git /home/u/r/.git
` + toolMounts + environment + `--setenv UV_OFFLINE 1 --chdir /home/u/w/one -- uv run --x`, false},

		// A mount covers what was mounted below it before.
		"files that stay as they are": {with(func(s *Step) { s.Fixed = []string{"/srv/w/.git", "/srv/w/a/.git"} }), merged, isolated + "--unshare-net " + mergedRoots + shownEtc + `
--dir /home --dir /srv --dir /home/u --dir /srv/r --dir /srv/w --dir /home/u/.local --dir /srv/w/a --dir /home/u/.local/share --dir /home/u/.local/share/uv
--bind /srv/w /srv/w --ro-bind /srv/r/.git /srv/r/.git --ro-bind /srv/w/.git /srv/w/.git --ro-bind /srv/w/a/.git /srv/w/a/.git
` + toolMounts + environment + `--setenv UV_OFFLINE 1 --chdir /srv/w -- uv run --x`, false},

		"root": {gate("/srv/w", "/srv/r/.git"), merged, isolated + "--unshare-net " + mergedRoots +
			strings.Replace(shownEtc, "--dev", "--remount-ro /proc --dev", 1) + `
--dir /home --dir /srv --dir /home/u --dir /srv/r --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--bind /srv/w /srv/w --ro-bind /srv/r/.git /srv/r/.git
` + toolMounts + environment + `--setenv UV_OFFLINE 1 --chdir /srv/w -- uv run --x`, true},

		// What is below /usr and /tmp stands there already, or in a folder that does.
		"a system that is not merged, other places": {gate("/usr/src/w/one", "/tmp/r"), paths{
			"/bin": "/", "/sbin": "/", "/lib": "/", "/lib32": "-", "/lib64": "/", "/libx32": "usr/libx32",
		}, isolated + "--unshare-net " + `--cap-drop ALL --ro-bind /usr /usr
--ro-bind /bin /bin --ro-bind /sbin /sbin --ro-bind /lib /lib --ro-bind /lib64 /lib64 --symlink usr/libx32 /libx32
` + shownEtc + `--dir /home --dir /home/u --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--bind /usr/src/w/one /usr/src/w/one --ro-bind /tmp/r /tmp/r
` + toolMounts + environment + `--setenv UV_OFFLINE 1 --chdir /usr/src/w/one -- uv run --x`, false},

		// The other way round the second mount would cover the first.
		"a worktree inside a bare repository": {gate("/srv/r.git/w", "/srv/r.git"), merged, isolated + "--unshare-net " + mergedRoots + shownEtc + `
--dir /home --dir /srv --dir /home/u --dir /srv/r.git --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--ro-bind /srv/r.git /srv/r.git --bind /srv/r.git/w /srv/r.git/w
` + toolMounts + environment + `--setenv UV_OFFLINE 1 --chdir /srv/r.git/w -- uv run --x`, false},

		"what is passed on": {with(func(s *Step) {
			s.Node = "20.1.0"
			s.Environ = []string{"LANG=C", "SSH_AUTH_SOCK=/s", "TERM=xterm", "LANG=de_DE.UTF-8", "HERDR_PANE_ID=w1:p1", "USERX=1", "USER=--=u", "LC_ALL=", "GH_TOKEN"}
		}), merged, isolated + "--unshare-net " + mergedRoots + shownEtc + `
--dir /home --dir /srv --dir /home/u --dir /srv/r --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--bind /srv/w /srv/w --ro-bind /srv/r/.git /srv/r/.git
` + toolMounts + `--setenv USER --=u --setenv LANG de_DE.UTF-8 --setenv LC_ALL "" --setenv TERM xterm
` + strings.Replace(environment, "22.22.2", "20.1.0", 1) + `--setenv UV_OFFLINE 1 --chdir /srv/w -- uv run --x`, false},

		"web": {with(func(s *Step) { s.Kind = Web }), merged, isolated + mergedRoots + shownEtc + `
--dir /home --dir /srv --dir /home/u --dir /srv/w --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--ro-bind /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf --bind /srv/w/web /srv/w/web
` + toolMounts + environment + `--setenv npm_config_git /bin/false --chdir /srv/w -- uv run --x`, false},

		"web, where the operator may add an authority": {with(func(s *Step) { s.Kind = Web }), merged.beside(paths{
			"/etc/ssl": "/", "/etc/ssl/certs": "/", "/etc/ssl/certs/ca-certificates.crt": "-",
		}), isolated + mergedRoots + shownEtc + `
--dir /home --dir /srv --dir /home/u --dir /srv/w --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--ro-bind /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf --bind /srv/w/web /srv/w/web
` + toolMounts + environment + `--setenv npm_config_git /bin/false --setenv SSL_CERT_FILE /etc/ssl/certs/ca-certificates.crt --setenv NODE_EXTRA_CA_CERTS /etc/ssl/certs/ca-certificates.crt
--chdir /srv/w -- uv run --x`, false},

		"Python": {with(func(s *Step) {
			s.Kind, s.Lock = Python, "/home/u/state/gate-inputs/r/abc-requirements.lock"
		}), merged, isolated + mergedRoots + shownEtc + `
--dir /gate-inputs --dir /home --dir /home/u --dir /home/u/.local --dir /home/u/.local/share --dir /home/u/.local/share/uv
--ro-bind /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
--ro-bind /home/u/state/gate-inputs/r/abc-requirements.lock /gate-inputs/abc-requirements.lock
` + toolMounts + environment + `--chdir /gate-home -- uv run --x`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.step.argv(tc.host.look, tc.root, []string{"uv", "run", "--x"})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Fields(tc.want)
			for i := range want {
				want[i] = strings.Trim(want[i], `"`)
			}
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("argument %d:\ngot  %q\nwant %q", i, got[min(i, len(got)):], want[min(i, len(want)):])
				}
			}
		})
	}
}

func TestArgvRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *Step){
		"a relative worktree":         func(s *Step) { s.Worktree = "w" },
		"no worktree":                 func(s *Step) { s.Worktree = "" },
		"a worktree that is unclean":  func(s *Step) { s.Worktree = "/srv/../w" },
		"an unclean git folder":       func(s *Step) { s.GitDir = "/srv/r/.git/" },
		"a fixed file outside":        func(s *Step) { s.Fixed = []string{"/srv/x"} },
		"an unclean fixed file":       func(s *Step) { s.Fixed = []string{"/srv/w/../x"} },
		"a relative scratch folder":   func(s *Step) { s.Home = "h" },
		"no HOME":                     func(s *Step) { s.UserHome = "" },
		"a HOME that no PATH has":     func(s *Step) { s.UserHome = "/home/a:b" },
		"no version of node":          func(s *Step) { s.Node = "22/../../x" },
		"a version and more":          func(s *Step) { s.Node = "22.1.0\n" },
		"all of the system":           func(s *Step) { s.Worktree = "/" },
		"all programs":                func(s *Step) { s.Worktree = "/usr" },
		"all of /tmp":                 func(s *Step) { s.Worktree = "/tmp" },
		"all of /etc":                 func(s *Step) { s.GitDir = "/etc" },
		"the libraries":               func(s *Step) { s.Worktree = "/lib64" },
		"a device":                    func(s *Step) { s.Worktree = "/dev/shm/w" },
		"a process":                   func(s *Step) { s.Worktree = "/proc/1/root/w" },
		"what the home covers":        func(s *Step) { s.Worktree = "/gate-home/w" },
		"a relative lock":             func(s *Step) { s.Kind, s.Lock = Python, "x-requirements.lock" },
		"web of a relative worktree":  func(s *Step) { s.Kind, s.Worktree = Web, "w" },
		"web below the home's place":  func(s *Step) { s.Kind, s.Worktree = Web, "/gate-home" },
		"no resolver for web":         func(s *Step) { s.Kind, s.Environ = Web, []string{"none"} },
		"no resolver file for Python": func(s *Step) { s.Kind, s.Lock, s.Environ = Python, "/l", []string{"none"} },
	} {
		s := &Step{Worktree: "/srv/w", GitDir: "/srv/r/.git", Home: "/srv/h", UserHome: "/home/u"}
		change(s)
		host := merged
		if s.Environ != nil {
			host = paths{"/etc": "/"}
		}
		if args, err := s.argv(host.look, false, []string{"x"}); fault.Code(err) != "VERIFY_UNAVAILABLE" || args != nil {
			t.Errorf("%s: %v, %q", name, err, args)
		}
	}
}

// A place that is not refused is needed to see that the others are.
func TestArgvTaken(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"/usr/local/src/w", "/tmp/w", "/etc/w", "/gate-homes", "/gate-inputs/w", "/libs", "/home/u"} {
		s := &Step{Worktree: place, GitDir: "/srv/r/.git", Home: "/srv/h", UserHome: "/home/u"}
		if _, err := s.argv(merged.look, false, []string{"x"}); err != nil {
			t.Errorf("%s: %v", place, err)
		}
	}
}

func TestRegular(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		host paths
		want string // "": refused
	}{
		"a file":               {paths{"/etc": "/", "/etc/resolv.conf": "-"}, "/etc/resolv.conf"},
		"through folders":      {merged, "/run/systemd/resolve/stub-resolv.conf"},
		"absolute":             {paths{"/etc": "/", "/etc/resolv.conf": "/a//b", "/a": "/", "/a/b": "-"}, "/a/b"},
		"links on the way":     {paths{"/etc": "real/etc", "/real": "/", "/real/etc": "/", "/real/etc/resolv.conf": "../r", "/real/r": "/x", "/x": "-"}, "/x"},
		"above the root":       {paths{"/etc": "/", "/etc/resolv.conf": "../../../x", "/x": "-"}, "/x"},
		"missing":              {paths{"/etc": "/"}, ""},
		"to nothing":           {paths{"/etc": "/", "/etc/resolv.conf": "/run/x"}, ""},
		"a folder":             {paths{"/etc": "/", "/etc/resolv.conf": "/"}, ""},
		"to a folder":          {paths{"/etc": "/", "/etc/resolv.conf": "/etc"}, ""},
		"to itself":            {paths{"/etc": "/", "/etc/resolv.conf": "resolv.conf"}, ""},
		"nothing at all":       {paths{}, ""},
		"a circle of two":      {paths{"/etc": "/", "/etc/resolv.conf": "a", "/etc/a": "resolv.conf"}, ""},
		"a file for a folder":  {paths{"/etc": "-"}, ""},
		"beyond a folder's ..": {paths{"/etc": "/", "/etc/resolv.conf": "l/../x", "/etc/l": "/a/b", "/a": "/", "/a/b": "/", "/a/x": "-"}, "/a/x"},
	} {
		got, err := regular(tc.host.look, "/etc/resolv.conf")
		if got != tc.want || (err == nil) != (tc.want != "") || err != nil && fault.Code(err) != "VERIFY_UNAVAILABLE" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"":                                   "it says nothing of the cause",
		"bwrap: Unknown option --clearenv\n": "it is too old, 0.5.0 is needed",
		"bwrap: No permissions to create a new namespace, likely because the kernel\n": "this system gives users no namespaces",
		"bwrap: setting up uid map: Permission denied":                                 "this system gives users no namespaces",
		"bwrap: Can't mount proc\x1b[0m on /newroot/proc: Device busy\nmore\n":         "bwrap: Can't mount proc[0m on /newroot/proc: Device busy",
		strings.Repeat("x", 300): strings.Repeat("x", 200),
	} {
		if got := reason(&Result{Stderr: Stream{Tail: []byte(said)}}); !strings.HasPrefix(got, want) || strings.Contains(got, "more") {
			t.Errorf("%q: %s", said, got)
		}
	}
	if got := reason(&Result{TimedOut: true}); got != "it did not end in time" {
		t.Error(got)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	text := make([]byte, 20*MaxTail+7)
	for i := range text {
		text[i] = byte(i*7/3 ^ i>>8)
	}
	for _, size := range []int{1, 1000, MaxTail, 2*MaxTail + 1, len(text)} {
		for _, length := range []int{0, 1, MaxTail - 1, MaxTail, MaxTail + 1, len(text)} {
			d := newDigester(MaxTail)
			for part := range slices.Chunk(text[:length], size) {
				if n, err := d.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
				if cap(d.tail) > 5*MaxTail {
					t.Fatalf("it keeps %d bytes", cap(d.tail))
				}
			}
			s := d.stream()
			if s.SHA256 != digest(text[:length]) || s.Bytes != int64(length) ||
				string(s.Head) != string(text[:min(length, MaxTail)]) || s.Whole() != (length <= MaxTail) ||
				string(s.Tail) != string(text[max(0, length-MaxTail):length]) {
				t.Errorf("%d bytes by %d: %d, %d and %d, %s", length, size, s.Bytes, len(s.Head), len(s.Tail), s.SHA256)
			}
		}
	}
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func TestNoLook(t *testing.T) {
	t.Parallel()
	broken := func(string) (fs.FileMode, string, error) { return fs.ModeDir, "", errors.New("broken") }
	if got := system(broken, false, true); slices.Contains(got, "/lib64") || slices.Contains(got, "--unshare-net") {
		t.Errorf("%q", got)
	}
}

func TestTrusted(t *testing.T) {
	t.Parallel()
	const debian, fedora, newer = "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"
	ssl := paths{"/etc": "/", "/etc/ssl": "/", "/etc/ssl/certs": "/"}
	pki := paths{"/etc": "/", "/etc/pki": "/", "/etc/pki/tls": "/", "/etc/pki/tls/certs": "/", "/etc/pki/ca-trust": "/", "/etc/pki/ca-trust/extracted": "/", "/etc/pki/ca-trust/extracted/pem": "/"}
	for name, tc := range map[string]struct {
		host paths
		want string
	}{
		"none":       {ssl, ""},
		"Debian":     {ssl.beside(paths{debian: "-"}), debian},
		"Arch":       {ssl.beside(paths{debian: "../../ca-certificates/extracted/tls-ca-bundle.pem", "/etc/ca-certificates": "/", "/etc/ca-certificates/extracted": "/", "/etc/ca-certificates/extracted/tls-ca-bundle.pem": "-"}), debian},
		"Fedora":     {pki.beside(paths{fedora: newer, newer: "-"}), fedora},
		"Fedora 43":  {pki.beside(paths{newer: "-"}), newer},
		"a folder":   {ssl.beside(paths{debian: "/"}), ""},
		"not shown":  {ssl.beside(paths{debian: "/var/lib/ca.pem", "/var": "/", "/var/lib": "/", "/var/lib/ca.pem": "-"}), ""},
		"not in ssl": {ssl.beside(paths{debian: "/etc/sslx", "/etc/sslx": "-"}), ""},
		"both":       {ssl.beside(pki).beside(paths{debian: "/gone", newer: "-"}), newer},
	} {
		if got := trusted(tc.host.look); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
