// Package response reads the complete final answer of a settled agent, page by
// page, from where the agent's host keeps it: never from a terminal.
//
// Herdr says which session an agent has, and the host's own store has the text:
// opencode export, or the transcripts of Claude Code and Codex. Nothing is
// stored here. Who may read what depends on a role that is fixed when the process
// starts. docs/orchestration.md is for its users.
package response

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"herdr-link/herdrcli"
	"herdr-link/mcp"
)

const (
	minPage     = 1024
	maxPage     = 16384
	defaultPage = 8192

	// DefaultMaxBytes is the size of the largest session unless Options say
	// another, MinMaxBytes the least that they may say.
	DefaultMaxBytes = 64 << 20
	MinMaxBytes     = 1 << 20

	// SecretSize is the length of a secret in bytes.
	SecretSize = 32
)

// Roles are what a caller can be. Any other may read nothing.
const (
	ShepherdPlan  = "shepherd-plan"
	ShepherdBuild = "shepherd-build"
	Coordinator   = "coordinator"
)

// Hosts are those whose sessions can be read.
func Hosts() []string { return []string{"opencode", "claude", "codex"} }

// Options say who reads, and where.
type Options struct {
	Getenv  func(string) string
	Environ []string // of children
	Home    string   // "": none
	Herdr   *herdrcli.Client
	Log     *slog.Logger // gets codes, exit codes and times alone; nil: none

	Role     string
	Hosts    []string // that a coordinator may read; nil: all
	MaxBytes int64    // of a session; 0: DefaultMaxBytes
	Secret   []byte   // that signs cursors; nil: one of this Reader's own
}

// A Reader reads answers for one caller. Its methods may be used by many
// goroutines.
type Reader struct {
	getenv  func(string) string
	environ []string
	home    string
	herdr   *herdrcli.Client
	log     *slog.Logger
	role    string
	hosts   []string
	max     int64
	secret  []byte
	now     func() time.Time
}

// New returns a reader. It starts no process.
func New(o Options) *Reader {
	r := &Reader{
		getenv: o.Getenv, environ: o.Environ, home: o.Home, herdr: o.Herdr, log: o.Log,
		role: o.Role, hosts: o.Hosts, max: o.MaxBytes, secret: o.Secret, now: time.Now,
	}
	if r.hosts == nil {
		r.hosts = Hosts()
	}
	if r.role != Coordinator { // a shepherd's workers are OpenCode's
		r.hosts = []string{"opencode"}
	}
	if r.max == 0 {
		r.max = DefaultMaxBytes
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.secret == nil {
		r.secret = make([]byte, SecretSize)
		_, _ = rand.Read(r.secret) // never fails
	}
	return r
}

// leaves are the roles of workers, by what may read their answers.
var leaves = map[string][]string{
	ShepherdPlan:  {"sheep-plan"},
	ShepherdBuild: {"sheep-plan", "sheep-build", "shearer-review-low", "shearer-review-medium"},
}

// mayRead reports whether the caller may read answers of an agent of that role.
func (r *Reader) mayRead(role string) bool {
	return r.role == Coordinator || slices.Contains(leaves[r.role], role)
}

// authorize says why the caller may read nothing at all, or nil.
func (r *Reader) authorize() error {
	switch r.getenv("SHEPHERD_MODE") {
	case "sheep-plan", "sheep-build", "review":
		return errUnauthorized
	}
	switch {
	case r.role == Coordinator && r.getenv("HERDR_PANE_ID") == "":
		return errNoPane
	case r.role != Coordinator && leaves[r.role] == nil:
		return errUnauthorized
	}
	return nil
}

// A request is a call's arguments, understood.
type request struct {
	target, cursor string // one of them
	size           int
}

// schema is that of the arguments.
var schema = mcp.Schema{Type: "object", Properties: []mcp.Property{
	{Name: "target", Schema: mcp.Schema{
		Type: "string", Description: "name or pane id of the agent: for the first page",
		Pattern: herdrcli.TargetPattern, Rule: "the name or the pane id of an agent", Valid: herdrcli.IsTarget,
	}},
	{Name: "cursor", Schema: mcp.Schema{Type: "string", Description: "from the page before: for each further page, without target", MaxBytes: maxCursor}},
	{Name: "maxBytes", Schema: pageSize()},
}}

func pageSize() mcp.Schema {
	s := mcp.Between("integer", minPage, maxPage)
	s.Description, s.Default = "of text in a page", int64(defaultPage)
	return s
}

// understand reads the arguments: unknown ones, maxBytes, which of the two there
// is, and its form, in this order. An empty string is as good as none, since
// OpenCode has its model fill in every argument.
func understand(args mcp.Args) (*request, error) {
	given, rest := mcp.Args{}, mcp.Args{}
	for name, value := range args {
		known := slices.ContainsFunc(schema.Properties, func(p mcp.Property) bool { return p.Name == name })
		if known && (string(value) == `""` || string(value) == "null") {
			continue
		}
		given[name] = value
		if name != "target" && name != "cursor" {
			rest[name] = value
		}
	}
	v, err := schema.Read(rest)
	if err != nil {
		return nil, err
	}
	if (given["target"] == nil) == (given["cursor"] == nil) {
		return nil, errNotOne
	}
	size := v.Int("maxBytes")
	if v, err = schema.Read(given); err != nil {
		if given["cursor"] != nil {
			return nil, errCursor
		}
		return nil, err
	}
	return &request{v.Text("target"), v.Text("cursor"), size}, nil
}

// read gets a page.
func (r *Reader) read(ctx context.Context, q *request) (*page, error) {
	if q.cursor != "" {
		return r.further(ctx, q)
	}
	return r.first(ctx, q)
}

// first gets the first page of the newest answer of an agent. Herdr is asked
// again when the answer has been read: it must be that of the turn that Herdr
// called ended, and no older one.
func (r *Reader) first(ctx context.Context, q *request) (*page, error) {
	agent, err := r.look(ctx, q.target)
	if err != nil {
		return nil, err
	}
	if !settled(agent) {
		return nil, unsettled(agent.Status)
	}
	host := r.host(agent.Session)
	if host == "" {
		return nil, errNotOpenCode
	}
	a, err := r.load(ctx, host, agent.Session.Value, "")
	if err != nil {
		return nil, err
	}
	if !r.mayRead(a.role) {
		return nil, errRole
	}
	again, err := r.agent(ctx, q.target)
	switch {
	case err != nil:
		return nil, err
	case again.TerminalID != agent.TerminalID || again.WorkspaceID != agent.WorkspaceID:
		return nil, errNotFound
	case !settled(again) || again.Session != agent.Session || again.Changes != agent.Changes:
		return nil, unsettled(again.Status)
	}
	return r.cut(a, cursor{
		Version: 1, Host: a.host, Target: q.target, Session: a.session, Message: a.message, Role: a.role,
		Digest: digest(a.text), Expires: r.now().Add(cursorTime).UnixMilli(),
	}, q.size)
}

// further gets another page of an answer. Herdr is not asked: the agent may have
// gone on, or be gone.
func (r *Reader) further(ctx context.Context, q *request) (*page, error) {
	c, err := readCursor(r.secret, q.cursor)
	if err != nil {
		return nil, err
	}
	switch {
	case r.now().UnixMilli() > c.Expires:
		return nil, errExpired
	case !slices.Contains(r.hosts, c.Host) || !r.mayRead(c.Role):
		return nil, errChanged
	}
	a, err := r.load(ctx, c.Host, c.Session, c.Message)
	switch {
	case errors.Is(err, errNoAnswer) || err == nil && (a.role != c.Role || digest(a.text) != c.Digest):
		return nil, errChanged
	case err != nil:
		return nil, err
	case c.Offset > len(a.text):
		return nil, errCursor
	}
	return r.cut(a, *c, q.size)
}

func settled(a herdrcli.Agent) bool { return a.Status == "idle" || a.Status == "done" }

// host returns whose session that is, if it can be read for the caller.
func (r *Reader) host(s herdrcli.Session) string {
	for _, host := range r.hosts {
		if s.Source == "herdr:"+host && s.Agent == host && s.Kind == "id" && s.Value != "" && len(s.Value) <= maxWord && plain(s.Value) {
			return host
		}
	}
	return ""
}

// look reads the record of the agent. A coordinator's must be a named one of its
// own workspace, and another one than itself.
func (r *Reader) look(ctx context.Context, target string) (herdrcli.Agent, error) {
	if r.role != Coordinator {
		return r.agent(ctx, target)
	}
	var self herdrcli.Agent
	var selfErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		begun := time.Now()
		self, selfErr = r.herdr.AgentIn(ctx, r.getenv("HERDR_PANE_ID"))
		r.note(selfErr, begun)
	})
	agent, err := r.agent(ctx, target)
	wait.Wait()
	for _, err := range []error{selfErr, err} {
		if err != nil && !errors.Is(err, herdrcli.ErrNoAgent) && !errors.Is(err, errNotFound) {
			return agent, err
		}
	}
	switch {
	case selfErr != nil || err != nil:
		return agent, errNotFound
	case self.PaneID == agent.PaneID || self.TerminalID != "" && self.TerminalID == agent.TerminalID:
		return agent, errOwnPane
	case self.WorkspaceID != agent.WorkspaceID || !herdrcli.IsName(agent.Name):
		return agent, errNotFound
	}
	return agent, nil
}

// agent reads the record of that very agent.
func (r *Reader) agent(ctx context.Context, target string) (herdrcli.Agent, error) {
	begun := time.Now()
	a, err := r.herdr.AgentGet(ctx, target)
	r.note(err, begun)
	if herdrcli.Code(err) == "agent_not_found" || err == nil && a.Name != target && a.PaneID != target {
		return a, errNotFound
	}
	return a, err
}

// note logs how a herdr ended.
func (r *Reader) note(err error, begun time.Time) {
	exit := 0
	if e := (*herdrcli.Error)(nil); errors.As(err, &e) {
		exit = e.Exit
	}
	r.log.Info("child", "program", "herdr", "exit", exit, "code", herdrcli.Code(err), "ms", time.Since(begun).Milliseconds())
}

// load reads an answer of a session: the newest or, if pinned is not "", that
// one.
func (r *Reader) load(ctx context.Context, host, session, pinned string) (*answer, error) {
	open, done := r.openCodex, func(f *os.File) { _ = f.Close() }
	switch host {
	case "opencode":
		open, done = func(id string) (*os.File, error) { return r.export(ctx, id) }, discard
	case "claude":
		open = r.openClaude
	}
	file, err := open(session)
	if errors.Is(err, errLink) || errors.Is(err, fs.ErrNotExist) {
		err = errNoSession
	}
	if err != nil {
		return nil, err
	}
	defer done(file)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > r.max {
		return nil, errTooLarge
	}
	text := io.NewSectionReader(file, 0, info.Size()) // what is written from now on does not count
	switch host {
	case "opencode":
		return readOpenCode(ctx, text, session, pinned)
	case "claude":
		return readClaude(ctx, text, session, pinned)
	}
	return readCodex(ctx, text, session, pinned)
}
