package response

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"herdr-link/mcp"
)

const (
	// cursorTime is how long an answer can be read on, from its first page.
	cursorTime = 6 * time.Hour
	maxCursor  = 4096
	// maxInt is the largest integer that every reader of JSON has exactly.
	maxInt = 1<<53 - 1
)

var b64 = base64.RawURLEncoding.Strict()

// A cursor says which answer is being read, and up to where.
type cursor struct {
	Version int    `json:"v"`
	Host    string `json:"host"`
	Target  string `json:"target"`
	Session string `json:"sessionID"`
	Message string `json:"messageID"`
	Role    string `json:"role"`
	Digest  string `json:"digest"` // of the whole text
	Offset  int    `json:"offset"`
	Expires int64  `json:"expiresAt"` // ms since 1970
}

// sign returns the cursor as text.
func (c *cursor) sign(secret []byte) string {
	payload := b64.EncodeToString(mcp.Marshal(c))
	return payload + "." + signature(secret, payload)
}

func signature(secret []byte, payload string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(payload))
	return b64.EncodeToString(mac.Sum(nil))
}

// readCursor reads what sign has made. It does not look at the time.
func readCursor(secret []byte, text string) (*cursor, error) {
	payload, mac, _ := strings.Cut(text, ".")
	switch {
	case len(text) > maxCursor, payload == "", mac == "", strings.Contains(mac, "."):
		return nil, errCursor
	case !hmac.Equal([]byte(mac), []byte(signature(secret, payload))):
		return nil, errCursor
	}
	raw, err := b64.DecodeString(payload)
	if err != nil {
		return nil, errCursor
	}
	var c cursor
	if json.Unmarshal(raw, &c) != nil || !c.valid() {
		return nil, errCursor
	}
	return &c, nil
}

func (c *cursor) valid() bool {
	for _, s := range []string{c.Host, c.Target, c.Session, c.Message, c.Digest} {
		if s == "" {
			return false
		}
	}
	return c.Version == 1 && c.Offset >= 0 && c.Offset <= maxInt && c.Expires >= 0 && c.Expires <= maxInt
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return b64.EncodeToString(sum[:])
}
