package fakeherdr

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// cutGlobals takes the global options out of argv, wherever they stand before
// "--": even the text of a prompt is one if it looks like one. It returns the rest, and
// the session that --session names.
func cutGlobals(argv []string) (rest []string, session string, err error) {
	var remote, keybindings bool
	fail := func(text string) error { return usage("error: " + text + "\n" + strings.TrimSuffix(hint, "\n")) }
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--" { // what follows is for a program
			rest = append(rest, argv[i:]...)
			break
		}
		name, value, joined := strings.Cut(argv[i], "=")
		if name != "--session" && name != "--remote" && name != "--remote-keybindings" {
			rest = append(rest, argv[i])
			continue
		}
		if !joined {
			if i++; i == len(argv) {
				err = fail("missing value for " + name)
				break
			}
			value = argv[i]
		}
		switch name {
		case "--session":
			if session = value; !validSession(value) {
				err = fail("session name may only contain ASCII letters, numbers, '.', '_' and '-'")
			}
		case "--remote":
			remote = true
		case "--remote-keybindings":
			keybindings = true
		}
	}
	switch {
	case err != nil:
	case keybindings && !remote:
		err = fail("--remote-keybindings requires --remote")
	case remote && len(rest) > 0:
		err = fail("--remote can only be used with the default launch command")
	}
	return rest, session, err
}

func validSession(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// reach is the way to the server: it says why there is none.
func (c *call) reach(session string) error {
	socket := c.getenv("HERDR_SOCKET_PATH")
	named := session != "" || socket == "" && c.getenv("HERDR_SESSION") != ""
	if session == "" {
		session = c.getenv("HERDR_SESSION")
	}
	config := path.Join(c.getenv("HOME"), ".config/herdr")
	switch {
	case named:
		return unreachable{"server_not_running", fmt.Sprintf(
			"no herdr server is running at %s/sessions/%s/herdr.sock; run `herdr session attach %[2]s` to start or attach it", config, session)}
	case socket == "": // the default session's server is this scene's
		return c.server(path.Join(config, "herdr.sock"))
	case !c.scene.listensAt(socket) && len(socket) > sunPath:
		return debug(`Custom { kind: InvalidInput, error: "local socket name length exceeds capacity of sun_path of sockaddr_un" }`)
	case !c.scene.listensAt(socket):
		return notRunning(socket)
	}
	return c.server(socket)
}

const sunPath = 107 // bytes that Linux has for a socket's path

// listensAt allows for a directory with two paths.
func (s *Scene) listensAt(socket string) bool {
	if socket == s.socket() {
		return true
	}
	given, err := os.Stat(filepath.Dir(socket))
	if err != nil || filepath.Base(socket) != filepath.Base(s.socket()) {
		return false
	}
	ours, err := os.Stat(s.dir)
	return err == nil && os.SameFile(given, ours)
}

func notRunning(socket string) error {
	return unreachable{"server_not_running", "no herdr server is running at " + socket + "; run `herdr` to start or attach it"}
}

const clientProtocol = 20

func mismatch(server int, socket string) error {
	if server == 0 {
		server = clientProtocol + 1
	}
	message := fmt.Sprintf("client protocol %d is older than server protocol %d; upgrade the Herdr client before using this command", clientProtocol, server)
	if server < clientProtocol {
		message = fmt.Sprintf("client protocol %d is newer than server protocol %d; restart the Herdr server before using this command."+
			" Stop the old server to use the new version.\nStopping exits pane processes.\n"+
			"Run `HERDR_SOCKET_PATH=%s herdr server stop`, then restart Herdr with the same socket override.", clientProtocol, server, socket)
	}
	return unreachable{"protocol_mismatch", message}
}
