package output

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"choria-provision/config"
)

// maxText bounds, in runes, a text from a node or helper when it is shown.
const maxText = 2000

// Escape returns text on one line, with escape sequences for what could deceive a
// terminal or its reader: control characters (C0, C1, DEL), invisible characters,
// characters that change the direction, and bytes that are not UTF-8. JWTs and
// private keys in PEM become ****, from any source. Escaping twice is the same as
// once.
func Escape(text string) string {
	text = credential.ReplaceAllString(text, config.Redacted)
	if clean(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		writeRune(&b, r, text[:size])
		text = text[size:]
	}
	return b.String()
}

// credential matches texts that are secret by their form, in a helper's stderr or
// a library's debug line: a JWT, and a private key up to its end or the end of the
// text.
var credential = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?|(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`)

// EscapeTo escapes at most limit runes of a text of any size and appends an
// ellipsis when there are more.
func EscapeTo(text string, limit int) string {
	cut, runes := 0, 0
	for cut < len(text) && runes < limit {
		_, size := utf8.DecodeRuneInString(text[cut:])
		cut += size
		runes++
	}
	if cut == len(text) {
		return Escape(text)
	}
	return Escape(text[:cut]) + "…"
}

func clean(text string) bool {
	for i, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return false
		}
	}
	return true
}

func writeRune(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		const hex = "0123456789abcdef"
		b.WriteString(`\x`)
		b.WriteByte(hex[raw[0]>>4])
		b.WriteByte(hex[raw[0]&15])
	case unicode.IsPrint(r):
		b.WriteString(raw)
	default:
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
}

// escapeError returns the text of err, escaped and bounded, empty for nil.
func escapeError(err error) string {
	if err == nil {
		return ""
	}
	return EscapeTo(err.Error(), maxText)
}
