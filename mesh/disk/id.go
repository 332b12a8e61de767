package disk

import (
	"crypto/rand"
	"fmt"
	"strings"
)

// NewID returns a random id that nobody can guess: a UUID of version 4 in small
// letters.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the program ends first
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// IsID reports whether s is a UUID, of any version and in letters of any size.
func IsID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (r == '-') || !dash && !strings.ContainsRune("0123456789abcdefABCDEF", r) {
			return false
		}
	}
	return true
}
