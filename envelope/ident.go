package envelope

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

const (
	maxName = 32
	maxID   = 64
)

// ValidName reports whether s can be the name of an agent:
// ^[a-z][a-z0-9_-]{0,31}$ (PROTOCOL.md, Identifiers).
func ValidName(s string) bool {
	if s == "" || len(s) > maxName || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && s[i] != '_' && s[i] != '-' {
			return false
		}
	}
	return true
}

// ValidID reports whether s can be the id of a message:
// ^hl_[a-z0-9]+_[a-z0-9]+$ in at most 64 bytes (PROTOCOL.md, Identifiers).
func ValidID(s string) bool {
	s, ok := strings.CutPrefix(s, "hl_")
	if !ok || len(s) > maxID-len("hl_") {
		return false
	}
	first, second, _ := strings.Cut(s, "_")
	return allAlphanumeric(first) && allAlphanumeric(second)
}

// allAlphanumeric reports whether s is [a-z0-9]+.
func allAlphanumeric(s string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// NewID returns a fresh message id: hl_, now in Unix milliseconds, _ and 51
// random bits, both numbers in base 36. At most 22 bytes until the year 2059.
func NewID(now time.Time) string {
	var random [8]byte
	rand.Read(random[:]) // never fails
	bits := binary.BigEndian.Uint64(random[:]) >> (64 - 51)
	ms := max(now.UnixMilli(), 0) // a clock before 1970 must not yield an invalid id
	return "hl_" + strconv.FormatInt(ms, 36) + "_" + strconv.FormatUint(bits, 36)
}

// NewName returns a fresh agent name: hl- and eight random hex digits.
func NewName() string {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return "hl-" + hex.EncodeToString(random[:])
}
