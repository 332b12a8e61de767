package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"herdr-link/envelope"
	"herdr-link/herdrcli"
)

// Peers returns the caller and the live, named agents of its workspace without
// it, sorted by name. Every error is a *Fault: NOT_IN_HERDR or SELF_UNNAMED.
func (l *Link) Peers(ctx context.Context) (self Peer, peers []Peer, err error) {
	defer func() { err = fault(err) }()
	if !l.inside {
		return Peer{}, nil, errOutside
	}
	herdr := l.herdr.For("herdr_link_peers")
	begun := time.Now()
	type list struct {
		agents []herdrcli.Agent
		err    error
	}
	listed := make(chan list, 1)
	go func() {
		agents, err := herdr.AgentList(ctx)
		listed <- list{agents, err}
	}()
	var s sides
	s.self, s.selfErr = l.self(ctx, herdr)
	all := <-listed
	s.targetErr = all.err
	if err := s.unreachable(); err != nil {
		return Peer{}, nil, err
	}
	if s.unnamed() {
		if s.self, err = l.Bootstrap(ctx); err != nil {
			return Peer{}, nil, err
		}
		if time.Since(begun) > fresh {
			if all.agents, err = herdr.AgentList(ctx); err != nil {
				return Peer{}, nil, err
			}
		}
	}
	peers = []Peer{}
	for _, a := range all.agents {
		own := sides{self: s.self, target: a}.same() || a.Name == s.self.Name
		if !own && envelope.ValidName(a.Name) && a.WorkspaceID != "" && a.WorkspaceID == s.self.WorkspaceID {
			peers = append(peers, peer(a))
		}
	}
	slices.SortStableFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	peers = slices.CompactFunc(peers, func(a, b Peer) bool { return a.Name == b.Name })
	return peer(s.self), peers, nil
}

// A Message is what the caller has to say. ReplyTo may be empty.
type Message struct{ To, Text, ReplyTo string }

// check refuses what needs no look at Herdr to be refused.
func (m Message) check() error {
	switch {
	case envelope.Blank(m.Text):
		return errBlank
	case m.ReplyTo != "" && !envelope.ValidID(m.ReplyTo):
		return errReplyTo
	}
	return nil
}

// Send sends one message and returns its id when Herdr has taken it. It does
// not wait for an answer and tries nothing twice. Every error is a *Fault.
func (l *Link) Send(ctx context.Context, m Message) (id string, err error) {
	defer func() { err = fault(err) }()
	if !l.inside {
		return "", errOutside
	}
	e := envelope.Envelope{ID: envelope.NewID(time.Now()), To: m.To, ReplyTo: m.ReplyTo, Message: m.Text}
	if err := m.check(); err != nil {
		return "", err
	}
	if !envelope.ValidName(m.To) {
		// Such a name never reaches a command line. A message that is too long is told first.
		e.To = "x"
	}
	e.From = "x" // the shortest there is: what is too long with it is so with every name
	if _, err := wrap(e); err != nil {
		return "", err
	}
	if e.To != m.To {
		return "", errNoPeer
	}
	herdr := l.herdr.For("herdr_link_send")
	err = l.perform(ctx, herdr, act{
		name:    m.To,
		message: true,
		allowed: func(s sides) error {
			switch {
			case s.same() || s.self.Name == m.To:
				return errNoPeer // oneself is not a peer
			case state(s.target.Status) == "blocked":
				return errBlocked
			}
			return nil
		},
		do: func(ctx context.Context, s sides) error {
			e.From = s.self.Name
			text, err := wrap(e)
			if err != nil {
				return err
			}
			err = herdr.AgentPrompt(ctx, m.To, text)
			l.log.Info("send", "message_id", e.ID, "to", m.To, "text_bytes", len(text), "ok", err == nil)
			return during(errPrompt, errPromptUncertain, err)
		},
	})
	if errors.Is(err, herdrcli.ErrLockBusy) {
		err = errSendBusy
	}
	if err != nil {
		return "", err
	}
	return e.ID, nil
}

// wrap makes the text for Herdr, if it is not too long for a command line.
func wrap(e envelope.Envelope) (string, error) {
	text, err := envelope.Wrap(e)
	switch {
	case errors.Is(err, envelope.ErrNotText):
		return "", errNotText
	case err != nil:
		return "", err
	case argSize(text) > maxArg:
		return "", &tooLong{argSize(text)}
	}
	return text, nil
}

// Close closes the pane of the named agent; the own name is allowed. Every
// error is a *Fault.
func (l *Link) Close(ctx context.Context, name string) (err error) {
	defer func() { err = fault(err) }()
	if !l.inside {
		return errOutside
	}
	if !envelope.ValidName(name) {
		return errNoPeer
	}
	herdr := l.herdr.For("herdr_link_close")
	err = l.perform(ctx, herdr, act{
		name:    name,
		allowed: func(sides) error { return nil },
		do: func(ctx context.Context, s sides) error {
			return during(errClose, errCloseUncertain, herdr.PaneClose(ctx, s.target.PaneID))
		},
	})
	if errors.Is(err, herdrcli.ErrLockBusy) {
		err = errCloseBusy
	}
	return err
}

// during says in which step a command failed, and whether it may have been
// carried out all the same: it was started, and Herdr gave no answer of its own.
func during(step, uncertain, err error) error {
	var e *herdrcli.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Started && e.Code == "":
		return fmt.Errorf("%w: %w", uncertain, err)
	}
	return fmt.Errorf("%w: %w", step, err)
}
