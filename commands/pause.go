package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/fisk"

	"choria-provision/config"
	"choria-provision/output"
	"choria-provision/provision/installstate"
)

type pauseOptions struct {
	reason string
	length string
}

func (a *app) pause() {
	var o pauseOptions
	c := a.cli.Command("pause", "Keeps every run from working on nodes, until resume")
	c.Flag("reason", "Why, for whoever finds it paused").PlaceHolder("TEXT").StringVar(&o.reason)
	c.Flag("for", "End by itself after this time: 30m, 2h, 1d").PlaceHolder("DURATION").StringVar(&o.length)
	c.Action(a.choose(func(stop context.Context) error { return a.runPause(stop, o) }))
}

func (a *app) resume() {
	c := a.cli.Command("resume", "Ends a pause")
	c.Action(a.choose(func(stop context.Context) error { return a.runResume(stop) }))
}

func (a *app) runPause(stop context.Context, o pauseOptions) error {
	now := time.Now().UTC().Truncate(time.Second)
	p := installstate.Pause{Reason: o.reason, Since: now}
	if o.length != "" {
		length, err := config.ParseDuration(o.length)
		switch {
		case err != nil:
			return usageError{fmt.Errorf("--for: %q %w; write a number and a unit, such as 30m, 2h or 1d", o.length, err)}
		case length.Duration == 0:
			return usageError{errors.New("--for: a pause of no time is none; write a number and a unit, such as 30m, 2h or 1d")}
		}
		p.Until = now.Add(length.Duration)
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	store, err := a.openStore(stop, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.SetPause(p); err != nil {
		return err
	}
	if a.output == "json" {
		return a.writeJSON(pauseState{output.SchemaVersion, true, &p})
	}
	fmt.Fprintln(a.Out, describePause(p))
	return nil
}

// pauseState is the JSON document of pause and resume.
type pauseState struct {
	SchemaVersion int                 `json:"schema_version"`
	Paused        bool                `json:"paused"`
	Pause         *installstate.Pause `json:"pause,omitempty"`
}

// describePause tells a pause in one line. The reason may hold anything.
func describePause(p installstate.Pause) string {
	text := "paused until somebody resumes"
	if !p.Until.IsZero() {
		text = "paused until " + p.Until.Format(time.RFC3339)
	}
	if p.Reason != "" {
		text += fmt.Sprintf(": %q", p.Reason)
	}
	return text
}

func (a *app) runResume(stop context.Context) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	store, err := a.openStore(stop, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	was, err := store.Resume()
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.writeJSON(pauseState{SchemaVersion: output.SchemaVersion})
	}
	if was {
		fmt.Fprintln(a.Out, "resumed")
	} else {
		fmt.Fprintln(a.Out, "was not paused")
	}
	return nil
}

// choose makes the action of a command that runs run.
func (a *app) choose(run func(stop context.Context) error) fisk.Action {
	return func(*fisk.ParseContext) error {
		a.run = run
		return nil
	}
}
