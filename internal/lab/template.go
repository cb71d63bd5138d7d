package lab

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/kballard/go-shellquote"
)

// UseTiny configures a compiled tinyhelper, which starts in a fraction of the
// sample helper's time, and gives it the sample helper's answer as a template.
// It is for simulated nodes of a network without certificates: all of them
// name the same directory for their keys.
func (l *Lab) UseTiny(path string, more map[string]any) error {
	q := question{Identity: "@IDENTITY@"}
	q.ED25519 = &struct {
		Directory string `json:"directory"`
	}{"/etc/choria"}
	answer, err := l.model.answer(q, l.site)
	if err != nil {
		return err
	}
	answer["identity"] = q.Identity // a helper that stays must say whose answer it is
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	file := filepath.Join(l.dir, "template.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	keys := map[string]any{"helper": shellquote.Join(path, file)}
	for name, value := range more {
		keys[name] = value
	}
	return l.SetConfig(keys)
}
