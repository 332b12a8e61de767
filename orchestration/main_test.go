package orchestration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"herdr-link/fakeherdr"
)

// roleVariable is the environment variable with which this test binary is
// another program.
const roleVariable = "HERDR_LINK_TEST_ROLE"

func TestMain(m *testing.M) {
	if dir, ok := fakeherdr.Role(os.Args[0]); ok {
		os.Exit(fakeherdr.Main(dir, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
	}
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(withTemplates(m))
	case "opencode":
		os.Exit(playOpenCode(os.Args[1:]))
	case "herdr-link":
		os.Exit(playProgram(os.Args[1:]))
	}
	os.Exit(70)
}

// modeVariable says how the play goes wrong, if it shall.
const modeVariable = "HERDR_LINK_TEST_MODE"

// journalVariable names a file that gets a line a run.
const journalVariable = "HERDR_LINK_TEST_JOURNAL"

func note(line string) {
	f, err := os.OpenFile(os.Getenv(journalVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = f.WriteString(line + "\n")
		f.Close()
	}
}

// playOpenCode answers as OpenCode does: from the data file in its folder.
func playOpenCode(args []string) int {
	note(strings.Join(args, " ") + " " + os.Getenv("OPENCODE_DISABLE_PROJECT_CONFIG") + " " + os.Getenv("OPENCODE_CONFIG_DIR"))
	mode := os.Getenv(modeVariable)
	switch {
	case slices.Equal(args, []string{"--version"}):
		fmt.Println("1.18.33")
		return 0
	case args[0] == "models":
		if args[1] != "litellm" {
			fmt.Fprintln(os.Stderr, "\x1b[91m\x1b[1mError: \x1b[0mProvider not found: "+args[1])
			return 1
		}
		fmt.Println("litellm/other\nlitellm/glm-5.3-flash")
		return 0
	case args[0] != "debug" || args[1] != "agent":
		return 1
	}
	name, role := args[2], "primary"
	text, err := os.ReadFile(filepath.Join(os.Getenv("OPENCODE_CONFIG_DIR"), filepath.FromSlash(dataFile)))
	var data struct{ Agents map[string]any }
	if err != nil || json.Unmarshal(text, &data) != nil || data.Agents[name] == nil {
		fmt.Fprintf(os.Stderr, "Agent %s not found\n", name)
		return 1
	}
	last := name == shearerMedium
	switch {
	case mode == "hang":
		time.Sleep(time.Minute)
	case mode == "other mode" && last:
		role = "subagent"
	case mode == "other name" && last:
		name = "build"
	case mode == "no JSON" && last:
		fmt.Println("hello")
		return 0
	case mode == "fails" && last:
		fmt.Fprintln(os.Stderr, "\x1b[91mError:\x1b[0m no\nway")
		return 1
	}
	fmt.Printf("a warning before\n{\"name\":%q,\"mode\":%q,\"permission\":[]}\n", name, role)
	return 0
}

// playProgram is herdr-link as the plugin and status know it.
func playProgram(args []string) int {
	if slices.Equal(args, []string{"version"}) {
		fmt.Println("herdr-link 9.9.9")
		return 0
	}
	if !slices.Equal(args, []string{"orchestration", "respond"}) {
		return 2
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 3
	}
	note(string(input))
	switch s := string(input); {
	case strings.Contains(s, `"hang"`):
		note("hangs")
		time.Sleep(time.Minute)
	case strings.Contains(s, `"stubborn"`):
		signal.Ignore(syscall.SIGTERM)
		note("is stubborn")
		time.Sleep(time.Minute)
	case strings.Contains(s, `"silent"`):
		return 1
	case strings.Contains(s, `"garbage"`):
		fmt.Println("{}")
	case strings.Contains(s, `"refused"`):
		fmt.Println(`{"ok":false,"error":{"code":"AGENT_NOT_SETTLED","message":"it works","retryable":true},"agentStatus":"working"}`)
	default:
		fmt.Println(`{"ok":true,"target":"w","sessionID":"ses_1","messageID":"msg_1","role":"sheep-plan","finish":"stop","offset":0,"nextOffset":4,"totalBytes":9,"complete":false,"cursor":"c.s","text":"<b>&","host":"opencode"}`)
	}
	return 0
}
