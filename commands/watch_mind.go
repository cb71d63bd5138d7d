package commands

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"choria-provision/config"

	"github.com/coreos/go-systemd/v22/daemon"
)

// look is how often the pause flag and the configuration file are looked at.
const look = 500 * time.Millisecond

// mind looks after what may change while watch runs: the pause flag, the
// configuration, systemd's watchdog. It ends with the stop.
func (w *watch) mind() <-chan struct{} {
	w.checkPause()
	hangup := make(chan os.Signal, 1)
	if w.reloads {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	file := stateOf(w.cfg.File)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer signal.Stop(hangup)
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		barked := time.Now()
		patience, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			w.logger.Warnf("systemd's watchdog: %v", err)
		}
		for {
			select {
			case <-w.stop.Done():
				return
			case <-hangup:
				file = stateOf(w.cfg.File)
				w.reload()
			case <-ticker.C:
				w.checkPause()
				if now := stateOf(w.cfg.File); now != file && now != (fileState{}) {
					file = now
					w.reload()
				}
				if patience > 0 && time.Since(barked) > patience/3 {
					barked = time.Now()
					w.notify(daemon.SdNotifyWatchdog)
				}
			}
		}
	}()
	return ended
}

// checkPause brings the pause flag into force, and tells when it changes.
func (w *watch) checkPause() {
	err := checkPause(w.store)
	was := w.pause.Load()
	switch {
	case err == nil && was == nil, err != nil && was != nil:
		return
	case err != nil:
		w.pause.Store(&err)
		w.logger.Warn(withoutNothing(err))
		w.watcher.Queue.Drop()
	default:
		over := "the pause is over"
		if w.stateErr() != nil {
			over = "the state can be used again"
		}
		w.pause.Store(nil)
		w.logger.Info(over)
		w.wake()
	}
	w.paused()
}

// fixed are the keys that only count at the start.
var fixed = []string{
	"broker_provisioning_password", "broker_provisioning_password_file", "choria_insecure", "connect_timeout", "helper_workers", "leader_election",
	"lifecycle_component", "logfile", "loglevel", "monitor_address", "monitor_port", "records", "records_choria_config", "site", "state_dir", "workers",
}

// reload reads the configuration again. One that cannot be used is refused and
// the old one stays in force.
func (w *watch) reload() {
	w.notify(daemon.SdNotifyReloading)
	defer w.notify(daemon.SdNotifyReady)
	cfg, _, err := config.Load(w.located(), w.overrides())
	if err != nil {
		w.logger.Error("the configuration was changed and cannot be used, the one before stays in force")
		for line := range strings.SplitSeq(err.Error(), "\n") { // a log line holds one problem
			w.logger.Error(line)
		}
		return
	}
	changed := changedKeys(w.runner().Config, cfg)
	if len(changed) == 0 {
		return
	}
	if err := w.build(keepFixed(cfg, w.runner().Config)); err != nil {
		w.logger.Errorf("the configuration was changed and cannot be used, the one before stays in force: %v", err)
		return
	}
	w.logger.Infof("the configuration was read again; changed: %s", strings.Join(changed, ", "))
	if late := slices.DeleteFunc(changed, func(key string) bool { return !slices.Contains(fixed, key) }); len(late) > 0 {
		w.logger.Warnf("these count from the next start on: %s", strings.Join(late, ", "))
	}
}

// keepFixed gives a new configuration what only counts at the start.
func keepFixed(cfg, old *config.Config) *config.Config {
	cfg.BrokerPassword, cfg.Insecure, cfg.ConnectTimeout = old.BrokerPassword, old.Insecure, old.ConnectTimeout
	cfg.LeaderElection, cfg.LifecycleComponent = old.LeaderElection, old.LifecycleComponent
	cfg.LogFile, cfg.LogLevel = old.LogFile, old.LogLevel
	cfg.MonitorAddress, cfg.MonitorPort, cfg.Site = old.MonitorAddress, old.MonitorPort, old.Site
	cfg.StateDir, cfg.Workers, cfg.HelperWorkers = old.StateDir, old.Workers, old.HelperWorkers
	return cfg
}

// changedKeys lists the top level keys whose effective values differ. A secret
// that was changed in place does not show; it counts all the same.
func changedKeys(old, cfg *config.Config) (keys []string) {
	before, after := blocks(old), blocks(cfg)
	for key, text := range after {
		if before[key] != text {
			keys = append(keys, key)
		}
	}
	if !sameSecret(old.Token, cfg.Token) {
		keys = append(keys, "token")
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func sameSecret(a, b config.Secret) bool {
	left, errLeft := a.Reveal()
	right, errRight := b.Reveal()
	return left == right && fmt.Sprint(errLeft) == fmt.Sprint(errRight)
}

// blocks splits the effective configuration into its top level keys.
func blocks(cfg *config.Config) map[string]string {
	found := map[string]string{}
	key := ""
	for line := range strings.Lines(string(cfg.YAML())) {
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") {
			key = name
		}
		found[key] += line
	}
	return found
}
