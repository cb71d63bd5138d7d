package fleet

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Kind is a way to misbehave; the empty one is good.
type Kind string

// The kinds of fault.
const (
	Silent   Kind = "silent"   // answers discovery and nothing else
	Slow     Kind = "slow"     // answers a second late
	Twin     Kind = "twin"     // two machines of one name: everything is answered twice
	Refuse   Kind = "refuse"   // answers that it will not
	Garbage  Kind = "garbage"  // answers with what is no data of any action
	Dead     Kind = "dead"     // answers discovery, then is gone
	Comeback Kind = "comeback" // is there again, new, some time after its restart
)

var kinds = []Kind{Silent, Slow, Twin, Refuse, Garbage, Dead, Comeback}

// provisionable says whether a node of this kind is expected to come into
// service.
func (k Kind) provisionable() bool { return k == "" || k == Slow || k == Comeback }

// Fault makes a share of the fleet misbehave.
type Fault struct {
	Kind  Kind    `json:"kind"`
	Share float64 `json:"share"` // 0 to 1
}

// ParseFault reads KIND:SHARE, where SHARE is a fraction (0.1) or a percentage
// (10%).
func ParseFault(text string) (f Fault, err error) {
	kind, share, found := strings.Cut(text, ":")
	for _, known := range kinds {
		if string(known) == kind {
			f.Kind = known
		}
	}
	if f.Kind == "" || !found {
		return f, fmt.Errorf("fault %q: write KIND:SHARE, where KIND is one of %v", text, kinds)
	}
	number, percent := strings.CutSuffix(share, "%")
	f.Share, err = strconv.ParseFloat(number, 64)
	if percent {
		f.Share /= 100
	}
	if err != nil || !(f.Share >= 0 && f.Share <= 1) { // not a number is neither
		return f, fmt.Errorf("fault %q: the share is a fraction like 0.1 or a percentage like 10%%", text)
	}
	return f, nil
}

// deal gives each of n nodes its kind: the same ones every time, spread over
// the whole fleet.
func deal(n int, faults []Fault) ([]Kind, error) {
	dealt := make([]Kind, n)
	order := rand.New(rand.NewPCG(1, 2)).Perm(n) //nolint:gosec // to be the same every time
	for _, f := range faults {
		count := int(f.Share*float64(n) + 0.5)
		if count > len(order) {
			return nil, fmt.Errorf("the shares of all faults together are more than the whole fleet")
		}
		for _, at := range order[:count] {
			dealt[at] = f.Kind
		}
		order = order[count:]
	}
	return dealt, nil
}
