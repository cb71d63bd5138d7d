package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byteOrderMark is what some editors put before a text in UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// isUTF16 reports whether text begins with the byte order mark of UTF-16.
func isUTF16(text []byte) bool {
	return bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff})
}

// notSeen reports whether a character leaves no trace on a screen, blanks and
// tabs apart: it came with a copy from elsewhere.
func notSeen(r rune) bool {
	return r != ' ' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zs, unicode.Zl, unicode.Zp))
}

// secretText returns the secret in a file's text: a byte order mark before it
// and line ends behind it do not count.
func secretText(text []byte) string {
	return strings.TrimRight(strings.TrimPrefix(string(text), byteOrderMark), "\r\n")
}

// readKeyFile is readable for keys, certificates and tokens, which are refused
// with a byte order mark: what reads them expects none.
func readKeyFile(key, path string) ([]byte, *finding) {
	text, problem := readable(key, path)
	switch {
	case problem != nil:
		return nil, problem
	case isUTF16(text):
		f := mistake(key, absolute(path)+" is UTF-16", "save it as UTF-8")
		return nil, &f
	case bytes.HasPrefix(text, []byte(byteOrderMark)):
		f := mistake(key, absolute(path)+" begins with a byte order mark", "save it as UTF-8 without one")
		return nil, &f
	}
	return text, nil
}

// checkSecretFile holds that a secret's file can be read, by its user alone, and
// holds a text.
func checkSecretFile(key, path string) []finding {
	return append(checkAccess(key, path), checkSecretContent(key, path)...)
}

func checkSecretContent(key, path string) []finding {
	text, problem := readable(key, path)
	switch {
	case problem != nil:
		return asList(problem)
	case isUTF16(text):
		return []finding{mistake(key, absolute(path)+" is UTF-16", "save it as UTF-8")}
	case secretText(text) == "":
		return []finding{mistake(key, absolute(path)+" is empty", "write the secret into it")}
	}
	return checkSecretText(key, absolute(path)+" ", secretText(text))
}

// checkSecretText holds that a secret is what its author sees. where is the
// file, with a blank behind it, or empty.
func checkSecretText(key, where, secret string) []finding {
	const hint = "take it out, unless it is part of the secret"
	var found []finding
	if at := invalidByte(secret); at >= 0 {
		found = append(found, mistake(key, fmt.Sprintf("%sholds a byte that is not UTF-8 (0x%02x, byte %d)", where, secret[at], at+1), "save it as UTF-8"))
	}
	if strings.ContainsAny(secret, "\r\n") {
		found = append(found, warning(key, where+"holds more than one line", "leave one line, unless all are part of the secret"))
	}
	rest := strings.ToValidUTF8(strings.NewReplacer("\r", "", "\n", "").Replace(secret), "")
	if at := strings.IndexFunc(rest, notSeen); at >= 0 {
		r, _ := utf8.DecodeRuneInString(rest[at:])
		return append(found, warning(key, fmt.Sprintf("%sholds a character that is not seen (%U)", where, r), hint))
	}
	if secret != strings.TrimSpace(secret) {
		found = append(found, warning(key, where+"begins or ends with white space", hint))
	}
	return found
}

// invalidByte returns the index of the first byte that is not UTF-8, or -1.
func invalidByte(text string) int {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return -1
}
