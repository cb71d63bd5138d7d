package commands

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"choria-provision/config"

	"github.com/choria-io/fisk"
)

// The values of flags are read here and not by fisk: its whole numbers take
// 1.5 for 1, and its errors do not say which flag is meant.

// value is a flag's value: parse reads it, show gives it back.
type value struct {
	flag  string
	parse func(text string) error
	show  func() string
}

// Set implements fisk.Value.
func (v value) Set(text string) error {
	if err := v.parse(text); err != nil {
		return fmt.Errorf("%s: %w", v.flag, err)
	}
	return nil
}

// String implements fisk.Value.
func (v value) String() string { return v.show() }

// number is a whole number that may have been given or not.
type number struct {
	n     int
	given bool
}

// numberFlag makes f take a whole number of at least least.
func numberFlag(f *fisk.FlagClause, least int, target *number) {
	wholeNumber(f, least, func(n int) { *target = number{n, true} }, func() int { return target.n })
}

// intFlag is numberFlag where it does not matter whether the flag was given.
func intFlag(f *fisk.FlagClause, least int, target *int) {
	wholeNumber(f, least, func(n int) { *target = n }, func() int { return *target })
}

func wholeNumber(f *fisk.FlagClause, least int, set func(int), get func() int) {
	f.SetValue(value{
		flag: "--" + f.Model().Name,
		parse: func(text string) error {
			n, err := strconv.Atoi(text)
			if err != nil || n < least {
				return fmt.Errorf("%q is not a whole number of at least %d", text, least)
			}
			set(n)
			return nil
		},
		show: func() string { return strconv.Itoa(get()) },
	})
}

// durationFlag makes f take a duration as the configuration file does.
func durationFlag(f *fisk.FlagClause, target *time.Duration) {
	f.SetValue(value{
		flag: "--" + f.Model().Name,
		parse: func(text string) error {
			d, err := config.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("%q %w; write a number and a unit, such as 30s, 10m, 2h or 1d", text, err)
			}
			*target = d.Duration
			return nil
		},
		show: func() string { return target.String() },
	})
}

// wordFlag makes f take one of some words.
func wordFlag(f *fisk.FlagClause, target *string, words ...string) {
	f.PlaceHolder(strings.Join(words, "|")).HintOptions(words...).SetValue(value{
		flag: "--" + f.Model().Name,
		parse: func(text string) error {
			if !slices.Contains(words, text) {
				last := len(words) - 1
				return fmt.Errorf("%q is not known; write %s or %s", text, strings.Join(words[:last], ", "), words[last])
			}
			*target = text
			return nil
		},
		show: func() string { return *target },
	})
}

// yes is the value of a flag that is given or not; its variable of the environment
// may say yes or no in the usual words.
type yes struct{ value }

// BoolFlagIsNegatable implements fisk.BoolFlag: there is no --no-...
func (yes) BoolFlagIsNegatable() bool { return false }

func yesFlag(f *fisk.FlagClause, target *bool) {
	f.SetValue(yes{value{
		flag: "$" + f.Model().Envar,
		parse: func(text string) error {
			switch strings.ToLower(text) {
			case "1", "true", "yes", "on":
				*target = true
			case "0", "false", "no", "off":
				*target = false
			default:
				return fmt.Errorf("%q is neither yes nor no", text)
			}
			return nil
		},
		show: func() string { return strconv.FormatBool(*target) },
	}})
}
