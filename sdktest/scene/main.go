// Command scene makes a simulated Herdr for the clients of sdktest, and tells
// what happened in it.
//
//	scene new DIR BINARY    BINARY plays herdr there; prints the variables of each pane
//	scene show DIR          prints the open panes and what each has received
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"herdr-link/fakeherdr"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scene:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "new":
		s, err := fakeherdr.Create(args[1], args[2])
		if err != nil {
			return err
		}
		return panes(s, func(p *fakeherdr.Pane) (any, error) {
			env := map[string]string{}
			for _, v := range s.Env(p.ID) {
				key, value, _ := strings.Cut(v, "=")
				env[key] = value
			}
			return env, nil
		})
	case len(args) == 2 && args[0] == "show":
		s, err := fakeherdr.Open(args[1])
		if err != nil {
			return err
		}
		return panes(s, func(p *fakeherdr.Pane) (any, error) {
			received, err := s.Submissions(p.ID)
			texts := []string{}
			for _, r := range received {
				texts = append(texts, r.Text)
			}
			return texts, err
		})
	}
	return fmt.Errorf("usage: scene new DIR BINARY | scene show DIR")
}

// panes prints an object with an entry for each open pane.
func panes(s *fakeherdr.Scene, entry func(*fakeherdr.Pane) (any, error)) error {
	w, err := s.World()
	if err != nil {
		return err
	}
	all := map[string]any{}
	for _, p := range w.Panes {
		if all[p.ID], err = entry(p); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}
