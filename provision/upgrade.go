package provision

import (
	"encoding/json"
	"fmt"

	rpm "github.com/knqyf263/go-rpm-version"

	"choria-provision/config"
	"choria-provision/provision/helper"
)

// upgradeDecision says whether a node is sent to another release.
type upgradeDecision struct{ Needed bool }

// decideUpgrade compares the release a node runs with the one the helper wants
// it to run; wanted is empty when the helper said nothing. Any difference, a
// lower version too, asks for an upgrade; equal versions ask for nothing, also
// of a node that could not be upgraded. One that is needed and cannot be done
// is an error that unwraps to ErrUpgrade; whether upgrades_optional makes it a
// warning is the caller's, who treats a failing release_update the same way.
func decideUpgrade(current, wanted string, upgradable bool, c *config.Config) (upgradeDecision, error) {
	if wanted == "" || (current != "" && compareVersions(current, wanted) == 0) {
		return upgradeDecision{}, nil
	}
	if obstacle := upgradeObstacle(current, upgradable, c); obstacle != "" {
		return upgradeDecision{}, fmt.Errorf("%w: to %s: %s", ErrUpgrade, wanted, obstacle)
	}
	return upgradeDecision{Needed: true}, nil
}

// upgradeEnds reports whether the upgrade step ends the sequence: the node is
// sent to another release, or fails because it cannot be. Nothing else in the
// answer is used then. An optional upgrade that the node refuses does not end
// it; that shows only when it is asked.
func upgradeEnds(a helper.Answer, f facts, c *config.Config) bool {
	if !c.Features.Upgrades {
		return false
	}
	decision, err := decideUpgrade(f.Version, a.Upgrade, f.Upgradable, c)
	return decision.Needed || err != nil && !c.UpgradesOptional
}

// Upgrading reports whether a node with this inventory would be upgraded to the
// wanted release. An upgrade that is not possible is an error, unless it is
// optional. Errors unwrap to ErrUpgrade or ErrNonsense.
func Upgrading(inventory, wanted string, c *config.Config) (bool, error) {
	var found facts
	if err := json.Unmarshal([]byte(inventory), &found); err != nil {
		return false, fmt.Errorf("%w: inventory of the input: %w", ErrNonsense, err)
	}
	decision, err := decideUpgrade(found.Version, wanted, found.Upgradable, c)
	if err != nil && c.UpgradesOptional {
		return false, nil
	}
	return decision.Needed, err
}

// upgradeObstacle names what stands in the way, empty when nothing does.
func upgradeObstacle(current string, upgradable bool, c *config.Config) string {
	switch {
	case c.UpgradesRepository == "":
		return "upgrades_repository is not set; set it, or set upgrades_optional"
	case current == "":
		return "the node's inventory names no version"
	case !upgradable:
		return "the node does not allow it; its provisioning.jwt needs the update claim"
	default:
		return ""
	}
}

// compareVersions orders two versions, epoch:version-release, as RPM does: -1
// when a is older than b, 0 when they are equal, 1 when it is newer. Releases
// count only when both sides have one: a helper that wants 0.30.2 is content
// with 0.30.2-1.
func compareVersions(a, b string) int {
	left, right := rpm.NewVersion(a), rpm.NewVersion(b)
	if left.Release() == "" || right.Release() == "" {
		left, right = withoutRelease(left), withoutRelease(right)
	}
	return left.Compare(right)
}

func withoutRelease(v rpm.Version) rpm.Version {
	return rpm.NewVersion(fmt.Sprintf("%d:%s", v.Epoch(), v.Version()))
}
