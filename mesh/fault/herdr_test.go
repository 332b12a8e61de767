package fault

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"herdr-link/herdrcli"
)

func TestHerdr(t *testing.T) {
	t.Parallel()
	call := func(cause error, exit int, code string) error {
		return fmt.Errorf("around: %w", &herdrcli.Error{Command: "agent get", Code: code, Exit: exit, Started: true, Err: cause})
	}
	for name, tc := range map[string]struct {
		err       error
		code      string
		retryable bool
	}{
		"a program that is not there": {call(herdrcli.ErrNotFound, -1, ""), "HERDR_NOT_FOUND", false},
		"no program":                  {call(herdrcli.ErrBinary, -1, ""), "HERDR_NOT_FOUND", false},
		"late":                        {call(herdrcli.ErrTimeout, -1, ""), "HERDR_TIMEOUT", true},
		"too much":                    {call(herdrcli.ErrTooMuch, -1, ""), "HERDR_OUTPUT_TOO_LARGE", false},
		"no JSON":                     {call(herdrcli.ErrOutput, 0, ""), "HERDR_BAD_OUTPUT", false},
		"usage":                       {call(herdrcli.ErrOutput, 2, ""), "INTERNAL", false},
		"a word of Herdr's":           {call(herdrcli.ErrReserved, -1, ""), "INVALID_ARGUMENT", false},
		"too long":                    {call(herdrcli.ErrTooLong, -1, ""), "INVALID_ARGUMENT", false},
		"no room":                     {call(herdrcli.ErrResources, -1, ""), "INTERNAL", false},
		"cancelled":                   {call(context.Canceled, -1, ""), "CANCELLED", false},
		"a known code":                {call(herdrcli.ErrRefused, 1, "server_not_running"), "HERDR_SERVER_DOWN", true},
		"an unknown code":             {call(herdrcli.ErrRefused, 1, "weather"), "HERDR_ERROR", false},
		"a fault":                     {fmt.Errorf("around: %w", New("LOCK_BUSY", "x")), "LOCK_BUSY", true},
		"a stranger":                  {os.ErrClosed, "INTERNAL", false},
	} {
		if f := Herdr(tc.err); f.Code != tc.code || f.Retryable != tc.retryable || f.Message == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := Herdr(call(herdrcli.ErrRefused, 1, "weather")); f.Details["herdrCode"] != "weather" || !strings.Contains(f.Message, "agent get") {
		t.Errorf("%+v", f)
	}
}
