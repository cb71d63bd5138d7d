package installstate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	maxName    = 255  // bytes in a file name
	hashMark   = "%_" // never written by escaping: there, hex digits follow each %
	hashLength = 2 * sha256.Size
)

// escape turns any machine name into a file name. Lower case letters, digits,
// `-`, `_` and inner dots stay; each other byte becomes %xx, upper case letters
// too, so that names stay apart on file systems that ignore case. A result that
// is too long for a file name ends in the name's hash.
func escape(machine string) string {
	if machine == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(machine) {
		if c := machine[i]; isPlain(c) || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	name := b.String()
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(machine))
	return name[:maxName-len(hashMark)-hashLength] + hashMark + hex.EncodeToString(sum[:])
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// unescape returns the machine name that escape turned into name; false when
// there is none, or when it was too long to be told from the file name.
func unescape(name string) (string, bool) {
	var b strings.Builder
	for rest := name; rest != ""; {
		if rest[0] != '%' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if len(rest) < 3 {
			return "", false
		}
		c, err := hex.DecodeString(rest[1:3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		rest = rest[3:]
	}
	machine := b.String()
	return machine, machine != "" && escape(machine) == name
}

// isHashed reports whether name is one that escape had to shorten.
func isHashed(name string) bool {
	at := len(name) - hashLength
	return len(name) == maxName && isFingerprint(name[at:]) && strings.HasSuffix(name[:at], hashMark)
}
