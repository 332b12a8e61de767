package attest

import (
	"strconv"
	"strings"
)

// parsePS reads what ps -o ppid=,lstart=,stat= prints of one process: its
// parent, five words of time, and its state.
func parsePS(text string) (seen, bool) {
	words := strings.Fields(text)
	if len(words) != 7 {
		return seen{}, false
	}
	parent, err := strconv.Atoi(words[0])
	if err != nil || parent < 0 {
		return seen{}, false
	}
	return seen{parent: parent, start: strings.Join(words[1:6], " "), ended: strings.HasPrefix(words[6], "Z")}, true
}
