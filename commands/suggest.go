package commands

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"choria-provision/config"

	"github.com/choria-io/fisk"
)

// mistyped finds the word in what fisk says of an unknown command or flag.
var mistyped = regexp.MustCompile(`(?:command but got "|flag '--)([^"']+)`)

// withSuggestion adds the command or flag that a mistyped one is nearest to.
func (a *app) withSuggestion(err error) error {
	word := mistyped.FindStringSubmatch(err.Error())
	if word == nil {
		return err
	}
	model, prefix := a.cli.Model(), ""
	var known []string
	switch {
	case errors.Is(err, fisk.ErrUnknownLongFlag):
		prefix, known = "--", flagNames(model.Flags)
		for _, c := range model.FlattenedCommands() {
			known = append(known, flagNames(c.Flags)...)
		}
	case errors.Is(err, fisk.ErrExpectedKnownCommand):
		for _, c := range model.FlattenedCommands() {
			known = append(known, strings.Fields(c.FullCommand)...)
		}
	}
	near := config.Nearest(word[1], slices.Values(known))
	if near == "" {
		return fmt.Errorf("%w; `provision --help` lists the commands", err)
	}
	return fmt.Errorf("%w; did you mean `%s%s`?", err, prefix, near)
}

// flagNames leaves hidden flags out.
func flagNames(flags []*fisk.FlagModel) (names []string) {
	for _, f := range flags {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	return names
}
