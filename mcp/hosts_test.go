package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"herdr-link/jsonrpc"
)

// A conversation is one of the files in testdata/hosts; its README has the form.
type conversation struct {
	server string
	lines  []string // each begins with "> " or "< "
}

func readConversation(t *testing.T, file string) (c conversation) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(raw), "\n\n")
	for line := range strings.Lines(head) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key {
		case "host", "shows":
		case "server":
			c.server = value
		default:
			t.Fatalf("%s: unknown key %q", file, key)
		}
	}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "> ") && !strings.HasPrefix(line, "< ") {
			t.Fatalf("%s: neither side says %q", file, line)
		}
		c.lines = append(c.lines, line)
	}
	return c
}

func (c conversation) with(t *testing.T) *Server {
	s := (&bench{}).server()
	switch c.server {
	case "legacy":
	case "eager":
		for i := range s.Tools {
			s.Tools[i].Listing = Always
		}
	case "modern":
		s.Modern = true
	case "slow":
		work := s.Tools[4].Begin
		s.Tools[0].Begin = func(s *Session, _ Args) Call { return work(s, Args{"ms": json.RawMessage("140000")}) }
	default:
		t.Fatalf("no such server: %q", c.server)
	}
	return s
}

// Every client that was recorded is served as it expects to be.
func TestHosts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "hosts", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		c := readConversation(t, file)
		bubble(t, strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			p := connect(t, c.with(t))
			var heard []string
			asked := map[string]string{} // what a line with that id asked for
			active := c.server == "eager"
			for _, line := range append(c.lines, "> "+request(`"end"`, "ping", ""), `< "end" result`) {
				if say, ok := strings.CutPrefix(line, "> "); ok {
					if len(heard) > 0 {
						t.Fatalf("before %.200s\nheard %q", line, heard)
					}
					var m struct {
						ID     json.RawMessage
						Method string
						Params struct{ ProtocolVersion string }
					}
					if err := json.Unmarshal([]byte(say), &m); err != nil {
						t.Fatal(err)
					}
					asked[string(m.ID)] = strings.TrimSpace(m.Method + " " + m.Params.ProtocolVersion)
					p.say(say)
					heard = append(heard, p.heard()...)
					continue
				}
				if len(heard) == 0 { // a held answer takes time
					time.Sleep(holdMax)
					heard = p.heard()
				}
				if len(heard) == 0 || brief(heard[0]) != line[2:] {
					t.Fatalf("heard %q\nwant  %s", heard, line)
				}
				active = active || line[2:] == changed
				checkAnswer(t, heard[0], asked, active)
				heard = heard[1:]
			}
			time.Sleep(time.Hour)
			p.ends(heard...)
		})
	}
}

// checkAnswer looks into the results that a client depends on: the version is
// the one that it asked for, and the list has what may be called.
func checkAnswer(t *testing.T, answer string, asked map[string]string, active bool) {
	t.Helper()
	var m struct {
		ID     json.RawMessage
		Result struct {
			ProtocolVersion, ResultType string
			SupportedVersions           []string
		}
	}
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatal(err)
	}
	method, version, _ := strings.Cut(asked[string(m.ID)], " ")
	result := strings.HasSuffix(brief(answer), " result")
	switch {
	case !result:
	case method == "initialize" && m.Result.ProtocolVersion != version:
		t.Errorf("asked for %s and heard %s", version, answer)
	case method == "server/discover" && (len(m.Result.SupportedVersions) != 1 || m.Result.ResultType == ""):
		t.Errorf("heard %s", answer)
	case method == "tools/list" && strings.Contains(names(t, answer), "herdr_link_send") != active:
		t.Errorf("active is %t, and the list is %s", active, names(t, answer))
	}
}

// Whatever a client says, it is answered as JSON-RPC wants it, and served on.
func FuzzServe(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "hosts", "*.txt"))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var said []string
		for line := range strings.Lines(string(raw)) {
			if line, ok := strings.CutPrefix(line, "> "); ok {
				said = append(said, line)
			}
		}
		f.Add([]byte(strings.Join(said, "")), false)
		f.Add([]byte(strings.Join(said, "")), true)
	}
	const id = `"behind it all"`
	f.Fuzz(func(t *testing.T, data []byte, eras bool) {
		if strings.Contains(string(data), "behind") {
			return
		}
		s := (&bench{}).server()
		s.Modern = eras
		s.Tools = s.Tools[:4] // without the one that takes time
		var out strings.Builder
		if err := s.Serve(t.Context(), strings.NewReader(string(data)+"\n"+request(id, "ping", "")), &out); err != nil {
			t.Fatal(err)
		}
		announced, pongs := 0, 0
		for line := range strings.Lines(out.String()) {
			switch said := brief(strings.TrimSuffix(line, "\n")); {
			case said == changed:
				announced++
			case said == id+" result":
				pongs++
			case strings.HasPrefix(said, "no "):
				t.Errorf("after %q: %s", data, said)
			case jsonrpc.Kind([]byte(line)) != '{' && jsonrpc.Kind([]byte(line)) != '[':
				t.Errorf("after %q: %s", data, line)
			}
		}
		if announced > 1 || pongs != 1 {
			t.Errorf("after %q: %d announcements, and %d answers to the ping behind", data, announced, pongs)
		}
	})
}
