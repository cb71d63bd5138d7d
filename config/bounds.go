package config

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// What a configuration may hold at most. The parser's time grows with the
// square of the number of tokens, its memory with the depth of brackets; a real
// file has some hundred tokens and one bracket within another.
const (
	maxSource = 64 << 10 // bytes
	maxTokens = 10_000
	maxDepth  = 32
)

// checkBounds returns why a source is not given to the parser. Its lexer takes
// time in proportion to the source, and knows which brackets are only text.
func checkBounds(source string) *Problem {
	refuse := func(at *token.Token, text, hint string) *Problem {
		return &Problem{Severity: SeverityError, Line: max(at.Position.Line, 1), Column: max(at.Position.Column, 1), Text: text, Remedy: hint}
	}
	tokens := lexer.Tokenize(source)
	depth := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > maxDepth {
			return refuse(tk, fmt.Sprintf("brackets are nested more than %d deep", maxDepth), "name the right file; a configuration nests two")
		}
	}
	if len(tokens) > maxTokens {
		return refuse(tokens[maxTokens], fmt.Sprintf("the file has more than %d parts (keys, values, brackets, comments)", maxTokens), "name the right file; a configuration has some hundred")
	}
	return nil
}

// withinBounds is checkBounds for text that may make the lexer panic: what it
// cannot read is left to the parser, which says why.
func withinBounds(source string) (problem *Problem) {
	defer func() {
		if recover() != nil {
			problem = nil
		}
	}()
	return checkBounds(strings.ReplaceAll(source, "\r\n", "\n"))
}
