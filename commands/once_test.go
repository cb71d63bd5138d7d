package commands

import (
	"testing"

	"choria-provision/config"
)

func TestLimitOfNothingLiftsTheConfiguredOne(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Limit: 5, Workers: 3}
	onceOptions{limit: number{n: 0, given: true}}.override(cfg)
	if cfg.Limit != 0 || cfg.Workers != 3 {
		t.Errorf("got limit %d and %d workers, want no limit and 3 workers", cfg.Limit, cfg.Workers)
	}
}
