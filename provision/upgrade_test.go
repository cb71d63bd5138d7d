package provision

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/provision/helper"
	"choria-provision/provision/trust"
)

func TestVersionsCompareAsRPMDoes(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/rpmvercmp.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(table)), "\n")
	if len(rows) < 90 {
		t.Fatalf("got %d rows, want at least 90", len(rows))
	}
	for _, row := range rows {
		fields := strings.Split(row, "\t")
		want, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatalf("row %q: %v", row, err)
		}
		if got := compareVersions(fields[0], fields[1]); got != want {
			t.Errorf("%s against %s: got %d, want %d", fields[0], fields[1], got, want)
		}
	}
}

func TestEpochAndReleaseCount(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, a, b string
		want       int
	}{
		{"epoch beats version", "1:0.1", "2.0", 1},
		{"no epoch is epoch zero", "0:1.0", "1.0", 0},
		{"higher release is newer", "1.0-2", "1.0-1", 1},
		{"release compares as numbers", "1.0-10.el9", "1.0-9.el9", 1},
		{"release on the left only", "0.30.2-1.el9", "0.30.2", 0},
		{"release on the right only", "0.30.2", "0.30.2-1.el9", 0},
		{"version beats release", "1.1-1", "1.0-9", 1},
		{"epoch without releases on one side", "1:1.0-1", "1:1.0", 0},
		{"epoch differs, release on one side", "1:1.0-1", "1.0", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := compareVersions(tt.a, tt.b); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestUpgradeDecision(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		current, wanted string
		frozen          bool
		repository      string
		needed          bool
		fails           string
	}{
		{name: "helper says nothing", current: "0.29.4", repository: "http://r"},
		{name: "equal goes on", current: "0.29.4", wanted: "0.29.4", repository: "http://r"},
		{name: "equal but for the release goes on", current: "0.29.4-1", wanted: "0.29.4", repository: "http://r"},
		{name: "equal needs no repository and no permission", current: "0.29.4", wanted: "0.29.4", frozen: true},
		{name: "newer", current: "0.29.4", wanted: "0.30.0", repository: "http://r", needed: true},
		{name: "older is an upgrade too", current: "0.29.4", wanted: "0.28.0", repository: "http://r", needed: true},
		{name: "no repository", current: "1", wanted: "2", fails: "upgrades_repository is not set"},
		{name: "no version", wanted: "2", repository: "http://r", fails: "names no version"},
		{name: "not upgradable", current: "1", wanted: "2", frozen: true, repository: "http://r", fails: "update claim"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.UpgradesRepository = tt.repository
			got, err := decideUpgrade(tt.current, tt.wanted, !tt.frozen, c)
			if got.Needed != tt.needed {
				t.Errorf("got needed %v, want %v", got.Needed, tt.needed)
			}
			wantCause(t, err, ErrUpgrade, tt.fails)
		})
	}
}

// says is a helper that always gives the same answer.
type says helper.Answer

func (s says) Answer(context.Context, helper.Input) (helper.Answer, error) {
	return helper.Answer(s), nil
}

func TestRehearsalOfAnUpgrade(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Features = config.Features{Upgrades: true}
	c.UpgradesRepository = "http://127.0.0.1/releases"
	configured := func(provider string) map[string]string {
		return map[string]string{
			"rpcauthorization": "0", "plugin.choria.server.provision": "0", trust.ProviderKey: provider,
			"plugin.security.file.certificate": "/s/certificate.pem", "plugin.security.file.key": "/s/private.pem", "plugin.security.file.ca": "/s/ca.pem",
		}
	}
	node := `{"version":"0.29.4","upgradable":true}`
	tests := []struct {
		name, inventory string
		answer          helper.Answer
		upgrading       bool
		warns, fails    string
	}{
		{name: "alone", inventory: node, answer: helper.Answer{Upgrade: "0.30.0"}, upgrading: true},
		{name: "with a configuration", inventory: node, answer: helper.Answer{Upgrade: "0.30.0", Configuration: configured("file")}, upgrading: true},
		{name: "with a configuration for later that is wrong", inventory: node, answer: helper.Answer{Upgrade: "0.30.0", Configuration: configured("files")}, upgrading: true, warns: "after the upgrade to 0.30.0 this answer would be refused: the helper's answer is not usable: configuration: plugin.security.provider"},
		{name: "that the node cannot do", inventory: `{"version":"0.29.4"}`, answer: helper.Answer{Upgrade: "0.30.0"}, fails: "the node does not allow it"},
		{name: "to the release that runs", inventory: `{"version":"0.30.0"}`, answer: helper.Answer{Upgrade: "0.30.0"}, fails: "its configuration is empty"},
		{name: "of an inventory that is none", inventory: `[]`, answer: helper.Answer{Upgrade: "0.30.0"}, fails: "inventory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := helper.Input{Identity: "n1", Inventory: tt.inventory}
			got, err := helper.Rehearse(t.Context(), says(tt.answer), in, helper.RehearseOptions{Config: c, Valid: discovery.ValidIdentity, Upgrading: Upgrading})
			if got.Upgrading != tt.upgrading || (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got upgrading %v and error %v, want %v and %q", got.Upgrading, err, tt.upgrading, tt.fails)
			}
			if warnings := strings.Join(got.Warnings, "\n"); err == nil && (warnings != "") != (tt.warns != "") || !strings.HasPrefix(warnings, tt.warns) {
				t.Errorf("got warnings %q, want %q", warnings, tt.warns)
			}
		})
	}
}

// wantCause checks that err is nil when text is empty, and otherwise unwraps
// to cause and says text.
func wantCause(t *testing.T, err, cause error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case text == "":
	case !errors.Is(err, cause):
		t.Errorf("got error %v, want cause %v", err, cause)
	case !strings.Contains(err.Error(), text):
		t.Errorf("got error %q, want one saying %q", err, text)
	}
}

func FuzzCompareVersions(f *testing.F) {
	f.Add("1.0", "2.0")
	f.Add("1:1.0~rc1-2", "1.0^git")
	f.Add("", "-")
	f.Add("99999999999999999999:1", ":")
	f.Fuzz(func(t *testing.T, a, b string) {
		if got := compareVersions(a, a); got != 0 {
			t.Errorf("%q against itself: got %d, want 0", a, got)
		}
		if got, back := compareVersions(a, b), compareVersions(b, a); got != -back {
			t.Errorf("%q and %q: got %d one way and %d the other", a, b, got, back)
		}
	})
}
