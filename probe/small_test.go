package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"herdr-link/contract"
	"herdr-link/envelope"
)

// small is a server of herdr-link/1 that promises no more than that: one
// request after the other, an additional tool, text only. Each flaw makes it
// break one promise.
type small struct {
	flaw   string
	inside bool
	active bool
	pane   string // its own
}

type object = map[string]any

func smallServer(flaw string) {
	s := &small{flaw: flaw, pane: os.Getenv("HERDR_PANE_ID")}
	s.inside = os.Getenv("HERDR_ENV") == "1" && os.Getenv("HERDR_BIN_PATH") != "" && s.pane != ""
	switch flaw {
	case "hangs":
		time.Sleep(time.Hour)
	case "dies":
		fmt.Fprintln(os.Stderr, "no\x1b[2Jcourage")
		os.Exit(3)
	case "garbage":
		fmt.Println("Welcome to the small server!")
	case "floods":
		for {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/nonsense"}`)
		}
	case "endless line":
		for {
			fmt.Print("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")
		}
	case "no gate":
		s.inside = true
	case "half a gate":
		s.inside = os.Getenv("HERDR_ENV") == "1"
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
	}
	if s.inside && flaw != "no bootstrap" {
		s.self()
	}
	in := bufio.NewReader(os.Stdin)
	lines := make(chan string)
	go func() {
		for {
			line, err := in.ReadString('\n')
			if line != "" && (err == nil || flaw != "needs a newline") {
				lines <- line
			}
			if err != nil {
				if flaw == "abandons calls" {
					os.Exit(0)
				}
				close(lines)
				return
			}
		}
	}()
	for line := range lines {
		if strings.TrimSpace(line) != "" {
			s.serve(line)
		} else if flaw == "no empty lines" {
			os.Exit(1)
		}
	}
	if flaw == "ignores SIGTERM" {
		time.Sleep(time.Hour)
	}
	if flaw == "bad exit" {
		os.Exit(1)
	}
}

func print(v any) {
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		os.Exit(9)
	}
}

func (s *small) changed() {
	if !s.active {
		print(object{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
	}
	if s.flaw == "two changes" {
		print(object{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
	}
	s.active = s.flaw != "never active"
}

func (s *small) serve(line string) {
	var req struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, ProtocolVersion string
			Arguments             object
		}
	}
	fail := func(code int) {
		id := req.ID
		if id == nil {
			id = json.RawMessage("null")
		}
		if s.flaw == "wrong codes" {
			code = -32000
		}
		print(object{"jsonrpc": "2.0", "id": id, "error": object{"code": code, "message": "no"}})
	}
	if !json.Valid([]byte(line)) {
		fail(-32700)
		return
	}
	if json.Unmarshal([]byte(line), &req) != nil {
		fail(-32600)
		return
	}
	if req.Method == "notifications/cancelled" && s.flaw == "dies of cancelled" {
		os.Exit(1)
	}
	if req.ID == nil && s.flaw != "answers notifications" {
		return
	}
	answer := func(result any) {
		if s.flaw == "ids as text" {
			req.ID = json.RawMessage(strconv.Quote(string(req.ID)))
		}
		print(object{"jsonrpc": "2.0", "id": req.ID, "result": result})
	}
	switch req.Method {
	case "initialize":
		if s.flaw == "early change" {
			s.changed()
		}
		version := req.Params.ProtocolVersion
		if s.flaw == "one version" {
			version = "2025-06-18"
		}
		answer(object{"protocolVersion": version, "serverInfo": object{"name": "small", "version": "0"},
			"capabilities": object{"tools": object{"listChanged": s.flaw != "no listChanged"}}})
	case "ping":
		answer(object{})
	case "tools/list":
		answer(object{"tools": s.tools()})
	case "tools/call":
		name := req.Params.Name
		args := req.Params.Arguments
		if args == nil && s.flaw == "needs arguments" || !slices.Contains([]string{"herdr_link", "herdr_link_peers", "herdr_link_send", "herdr_link_close"}, name) {
			fail(-32602)
			return
		}
		late := s.flaw == "late change" && !s.active
		s.active = s.active || late
		value, err := s.call(name, args)
		text, _ := json.Marshal(value)
		result := object{"content": []object{{"type": "text", "text": string(text)}}}
		if err != nil {
			text := err.Error()
			if s.flaw == "one code" {
				text = "SEND_FAILED: no"
			}
			result = object{"content": []object{{"type": "text", "text": text}}, "isError": true}
		}
		answer(result)
		if late {
			print(object{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
		}
	default:
		fail(-32601)
	}
}

func (s *small) tools() []object {
	tool := func(name string, required ...string) object {
		properties := object{}
		for _, p := range required {
			properties[p] = object{"type": "string"}
		}
		if name == "herdr_link_send" && s.flaw != "no reply_to" {
			properties["reply_to"] = object{"type": "string"}
		}
		if s.flaw == "empty schemas" {
			required = nil
		}
		tool := object{"name": name, "description": "does it", "inputSchema": object{"type": "object", "properties": properties, "required": append([]string{}, required...)}}
		if s.flaw == "titles for all" {
			tool["title"] = name
		}
		return tool
	}
	gateway := tool("herdr_link")
	if s.flaw == "tells the contract" {
		gateway["description"] = contract.Rules
	}
	switch {
	case !s.inside:
		return []object{}
	case !s.active && s.flaw != "lists all at once":
		return []object{gateway}
	}
	return []object{gateway, tool("herdr_link_start"), tool("herdr_link_peers"), tool("herdr_link_send", "to", "message"), tool("herdr_link_close", "agent")}
}

func (s *small) call(name string, args object) (any, error) {
	if !s.inside {
		return nil, errors.New("NOT_IN_HERDR: no")
	}
	if name == "herdr_link" {
		action, given := args["action"]
		if nested, ok := args["arguments"].(object); ok {
			args = nested
		} else if s.flaw == "nested only" {
			args = object{}
		}
		switch {
		case !given || action == "activate":
			s.changed()
			if s.flaw == "strange answers" {
				return object{"status": "on"}, nil
			}
			return object{"status": "active", "capabilities": []string{"start", "peers", "send", "close"}}, nil
		case action == "peers" || action == "send" || action == "close":
			name += "_" + action.(string)
		case s.flaw == "takes any action":
			return object{}, nil
		default:
			return nil, errors.New("ACTION: no")
		}
	}
	if s.flaw != "lazy" {
		s.changed()
	}
	switch name {
	case "herdr_link_peers":
		return s.peers()
	case "herdr_link_send":
		return s.send(args)
	}
	return s.close(args)
}

// herdr runs herdr; a refusal is its code, anything else NOT_IN_HERDR.
func (s *small) herdr(args ...string) (object, error) {
	cmd := exec.Command(os.Getenv("HERDR_BIN_PATH"), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var v struct {
		Result object
		Error  struct{ Code string }
	}
	if err != nil {
		_ = json.Unmarshal([]byte(stderr.String()), &v)
		if v.Error.Code == "" || v.Error.Code == "server_not_running" || v.Error.Code == "protocol_mismatch" {
			v.Error.Code = "NOT_IN_HERDR: no"
		}
		if s.flaw == "quotes Herdr" {
			return nil, errors.New("NOT_IN_HERDR: " + stderr.String())
		}
		return nil, errors.New(v.Error.Code)
	}
	if json.Unmarshal(out, &v) != nil {
		return nil, errors.New("NOT_IN_HERDR: no")
	}
	return v.Result, nil
}

func unless(err error, code string) error {
	if strings.HasPrefix(err.Error(), "NOT_IN_HERDR") {
		return err
	}
	return errors.New(code + ": no")
}

func (s *small) get(target string) (object, error) {
	r, err := s.herdr("agent", "get", target)
	if s.flaw == "looks twice" {
		r, err = s.herdr("agent", "get", target)
	}
	if err != nil {
		return nil, err
	}
	return r["agent"].(object), nil
}

// self is the own record, with a name.
func (s *small) self() (object, error) {
	for range 3 {
		a, err := s.get(s.pane)
		if err != nil {
			return nil, unless(err, "SELF_UNNAMED")
		}
		if a["name"] != nil || s.flaw == "no bootstrap" {
			if s.flaw == "names anew" {
				s.herdr("agent", "rename", s.pane, envelope.NewName())
			}
			if s.flaw == "renames all" {
				s.herdr("agent", "rename", "reviewer", "mine")
			}
			return a, nil
		}
		if _, err := s.herdr("agent", "rename", s.pane, envelope.NewName()); err != nil && (err.Error() != "agent_name_taken" || s.flaw == "one name") {
			return nil, unless(err, "SELF_UNNAMED")
		}
	}
	if a, err := s.get(s.pane); err == nil && a["name"] != nil {
		return a, nil
	}
	return nil, errors.New("SELF_UNNAMED: no")
}

func (s *small) peers() (any, error) {
	self, err := s.self()
	if err != nil && s.flaw == "optimist" {
		return object{"peers": []string{}}, nil
	}
	if s.flaw == "chatty" {
		fmt.Fprintln(os.Stderr, "looking for peers")
	}
	if err != nil {
		return nil, err
	}
	if s.flaw == "believes variables" {
		self["workspace_id"] = os.Getenv("HERDR_WORKSPACE_ID")
	}
	r, err := s.herdr("agent", "list")
	if err != nil {
		return nil, unless(err, "NOT_IN_HERDR")
	}
	state := func(a object) any {
		if slices.Contains([]any{"idle", "working", "blocked", "done"}, a["agent_status"]) || s.flaw == "raw states" {
			return a["agent_status"]
		}
		return "unknown"
	}
	list := []object{}
	for _, v := range r["agents"].([]any) {
		a := v.(object)
		if a["name"] != nil && a["name"] != self["name"] && (a["workspace_id"] == self["workspace_id"] || s.flaw == "no guard") {
			list = append(list, object{"name": a["name"], "state": state(a)})
		}
	}
	answer := object{"self": object{"name": self["name"], "state": state(self)}, "peers": list}
	if s.flaw == "leaks ids" {
		answer["pane"] = self["pane_id"]
	}
	return answer, nil
}

// target is the record of a name in the workspace of a record.
func (s *small) target(self object, name any) (object, error) {
	text, _ := name.(string)
	if !envelope.ValidName(text) && s.flaw != "any name" {
		return nil, errors.New("PEER_NOT_FOUND: no")
	}
	a, err := s.get(text)
	if err != nil {
		return nil, unless(err, "PEER_NOT_FOUND")
	}
	if a["workspace_id"] != self["workspace_id"] && s.flaw != "no guard" {
		return nil, errors.New("PEER_NOT_FOUND: no")
	}
	return a, nil
}

func (s *small) send(args object) (any, error) {
	message, _ := args["message"].(string)
	reply, given := args["reply_to"]
	replyTo, _ := reply.(string)
	if s.flaw != "sends anything" && (envelope.Blank(message) || given && !envelope.ValidID(replyTo)) {
		return nil, errors.New("SEND_FAILED: no")
	}
	self, err := s.self()
	if err != nil {
		return nil, err
	}
	target, err := s.target(self, args["to"])
	if err != nil {
		return nil, err
	}
	if s.flaw == "particular" && target["agent_status"] != "idle" {
		return nil, errors.New("SEND_FAILED: busy")
	}
	if s.flaw == "short" && len(message) > 64<<10 {
		return nil, errors.New("SEND_FAILED: too long")
	}
	from, _ := self["name"].(string)
	if claimed, ok := args["from"].(string); ok && s.flaw == "believes from" {
		from = claimed
	}
	e := envelope.Envelope{ID: envelope.NewID(time.Now()), From: from, To: args["to"].(string), ReplyTo: replyTo, Message: message}
	if s.flaw == "no reply" || s.flaw == "no reply_to" {
		e.ReplyTo = ""
	}
	text, err := envelope.Wrap(e)
	if err != nil {
		text = "nothing"
	}
	line := text[strings.LastIndexByte(text, '\n')+1:]
	switch s.flaw {
	case "raw characters":
		text = strings.ReplaceAll(text, `\u001b`, "\x1b")
		text = strings.ReplaceAll(text, `\u009b`, "\u009b")
	case "verbose":
		text = strings.Replace(text, "another agent", strings.Repeat("another agent ", 30), 1)
	case "HTML escapes":
		text = strings.ReplaceAll(text, "<", `\u003c`)
	case "bare":
		text = line
	case "more fields":
		text = strings.Replace(text, `"message":`, `"pane":"x","message":`, 1)
	case "pane in text":
		text = strings.Replace(text, "another agent", s.pane, 1)
	case "trims":
		text = strings.ReplaceAll(text, `\n`, " ")
	}
	prompt := []string{"agent", "prompt", e.To, text}
	if s.flaw == "waits" {
		prompt = append(prompt, "--wait", "--timeout", "1")
	}
	if s.flaw != "loses messages" {
		_, err = s.herdr(prompt...)
	}
	if s.flaw == "waits" {
		err = nil // the time-out: nobody answers here, but the text was delivered
	}
	if s.flaw == "twice" {
		_, err = s.herdr(prompt...)
	}
	if err != nil && s.flaw == "never refused" {
		return nil, unless(err, "PEER_NOT_FOUND")
	}
	if err != nil {
		return nil, unless(err, "SEND_FAILED")
	}
	if s.flaw == "strange answers" {
		return object{"status": "done", "id": "1"}, nil
	}
	return object{"status": "sent", "id": e.ID, "to": e.To}, nil
}

func (s *small) close(args object) (any, error) {
	self, err := s.get(s.pane)
	if err == nil && s.flaw == "closes with a name" {
		self, err = s.self()
	}
	if err != nil {
		return nil, unless(err, "PEER_NOT_FOUND")
	}
	target, err := s.target(self, args["agent"])
	if err != nil {
		return nil, err
	}
	pane := target["pane_id"].(string)
	switch {
	case s.flaw == "remembers panes":
		pane = "w1:p2"
	case s.flaw == "closes the focused":
		r, _ := s.herdr("agent", "list")
		for _, v := range r["agents"].([]any) {
			if v.(object)["focused"] == true {
				pane = v.(object)["pane_id"].(string)
			}
		}
	case s.flaw == "never itself" && pane == s.pane:
		return nil, errors.New("PEER_NOT_FOUND: no")
	}
	if _, err := s.herdr("pane", "close", pane); err != nil {
		return nil, unless(err, "CLOSE_FAILED")
	}
	return object{"status": "closed", "agent": args["agent"]}, nil
}
