package control

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"herdr-link/mcp"
)

const (
	// tokenTime is how long a preview's token can be used.
	tokenTime = 120 * time.Second
	// maxTokens is how many are kept; the oldest goes first.
	maxTokens = 32
)

// A shown is a preview: what would run, and the token that lets it.
type shown struct {
	Argv      []string  `json:"argv"` // the program's path first
	Digest    string    `json:"argvDigest"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
	Required  bool      `json:"required"`
}

// A ticket is what a token stands for.
type ticket struct {
	token, tool string
	digest      string
	values      mcp.Values
	seen        subject
	expires     time.Time
}

// Tokens are the previews of this process that have not been carried out.
type tokens struct {
	mu  sync.Mutex
	all []ticket
}

// issue keeps a ticket and gives it a token.
func (t *tokens) issue(k ticket) ticket {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	k.token = base64.RawURLEncoding.EncodeToString(random[:])
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == maxTokens {
		t.all = slices.Delete(t.all, 0, 1)
	}
	t.all = append(t.all, k)
	return k
}

// take returns the ticket of a token and forgets it: it counts once, whatever
// comes of it.
func (t *tokens) take(token, tool string, now time.Time) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(k ticket) bool { return k.token == token })
	if i < 0 {
		return ticket{}, false
	}
	k := t.all[i]
	t.all = slices.Delete(t.all, i, i+1)
	return k, k.tool == tool && now.Before(k.expires)
}

// digest is the SHA-256 of the elements, each with its length in front, so that
// no two lists have the same.
func digest(elements []string) string {
	h := sha256.New()
	for _, e := range elements {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(e)))
		h.Write(size[:])
		h.Write([]byte(e))
	}
	return hex.EncodeToString(h.Sum(nil))
}
