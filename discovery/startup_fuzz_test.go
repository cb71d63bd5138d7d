package discovery

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzStartup holds that what is taken for the start of a node is an event of
// that type, of the component asked for, and names the identity in it.
func FuzzStartup(f *testing.F) {
	for _, kind := range []string{"startup", "shutdown", "alive"} {
		f.Add([]byte(`{"protocol":"io.choria.lifecycle.v1.` + kind + `","id":"01","identity":"n1.example.net","component":"c","timestamp":1,"version":"1"}`))
	}
	for _, text := range []string{`{"protocol":"io.choria.lifecycle.v1.startup","identity":"x","component":"c"}`, "null", "[]", `{"protocol":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		identity, ok := startup(data, "c")
		if !ok {
			return
		}
		var said struct{ Protocol, Component, Identity string }
		if err := json.Unmarshal(data, &said); err != nil {
			t.Fatalf("took %q, which is no JSON: %v", data, err)
		}
		if said.Identity != identity || !strings.EqualFold(said.Component, "c") || said.Protocol != "io.choria.lifecycle.v1.startup" {
			t.Errorf("took %q from %+v", identity, said)
		}
	})
}
