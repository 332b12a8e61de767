package fakeherdr

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options says what a command does with each of its options.
type options map[string]option

// An option takes the next argument as its value, or is alone: --name=value is
// another, unknown option, as it is to Herdr 0.8.0.
type option struct {
	alone   bool
	missing string // what is said if the value is missing; empty: the usual words
	set     func(value string) error
}

// parse looks at arguments that are all options, from the first to the last, as
// Herdr does: the first that is wrong is the one that is reported.
func (known options) parse(args []string) error {
	for len(args) > 0 {
		name, value := args[0], ""
		option, ok := known[name]
		if args = args[1:]; !ok {
			return usage("unknown option: " + name)
		}
		switch {
		case option.alone:
		case len(args) == 0 && option.missing != "":
			return usage(option.missing)
		case len(args) == 0:
			return usage("missing value for " + name)
		default:
			value, args = args[0], args[1:]
		}
		if err := option.set(value); err != nil {
			return err
		}
	}
	return nil
}

// size is how many arguments an option is, with its value.
func (known options) size(name string) int {
	if option, ok := known[name]; ok && !option.alone {
		return 2
	}
	return 1
}

// flag stores what it stands for.
func flag[T any](to *T, value T) option {
	return option{alone: true, set: func(string) error { *to = value; return nil }}
}

func text(to *string) option {
	return option{set: func(value string) error { *to = value; return nil }}
}

// number is a count whose mistakes are reported as bad says.
func number(name string, bits int, to **uint64, bad func(text string) error) option {
	return option{set: func(value string) error {
		n, err := strconv.ParseUint(strings.TrimPrefix(value, "+"), 10, bits)
		if err != nil {
			return bad("invalid value for " + name + ": " + value)
		}
		*to = &n
		return nil
	}}
}

// timeout is --timeout in milliseconds, as agent commands report its mistakes.
func timeout(to **uint64) option {
	return number("--timeout", 64, to, func(text string) error { return usage(text) })
}

// rustError is how the client prints an error that it did not expect.
func rustError(text string) error {
	return debug("Custom { kind: Other, error: " + strconv.Quote(text) + " }")
}

func until(to *[]string) option {
	return option{missing: "--until requires at least one status", set: func(value string) error {
		if !slices.Contains([]string{Idle, Working, Blocked, Done, Unknown}, value) {
			return usage("invalid agent status: " + value + " (expected idle, working, blocked, done, or unknown)")
		}
		*to = append(*to, value)
		return nil
	}}
}

// environment is --env, which changes nothing here.
func environment() option {
	return option{set: func(value string) error {
		switch key, _, ok := strings.Cut(value, "="); {
		case !ok:
			return usage("env must use KEY=VALUE")
		case key == "":
			return usage("env key must not be empty")
		}
		return nil
	}}
}

func ratio(to *float32) option {
	return option{set: func(value string) error {
		f, err := strconv.ParseFloat(value, 32)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return usage("invalid ratio: " + value)
		}
		*to = float32(f)
		return nil
	}}
}

// A place is where a new shell is to be, and how.
type place struct {
	cwd, label string
	focus      bool
}

func (p *place) options() options {
	return options{
		"--cwd": text(&p.cwd), "--env": environment(),
		"--focus": flag(&p.focus, true), "--no-focus": flag(&p.focus, false),
	}
}

// patience is how long a call waits that was given that many milliseconds.
func (w *World) patience(milliseconds uint64) time.Duration {
	const most = math.MaxInt64 / uint64(time.Millisecond)
	return time.Duration(min(milliseconds, most)) * time.Millisecond / time.Duration(max(w.Haste, 1))
}
