// Package helper runs the site's own program, which decides what a node's
// configuration is, and checks its answers against the node. It knows the
// contract of input and answer and what a Choria server makes of a configuration;
// it knows neither the sequence of steps nor the network.
package helper

import (
	"context"
	"errors"

	"github.com/choria-io/tokens"
)

// Helper decides what a node's configuration is. Errors unwrap to ErrFailed,
// ErrTimeout or ErrAnswer.
type Helper interface {
	Answer(ctx context.Context, in Input) (Answer, error)
}

// Answer holds what the helper decided for one node. All of it is optional.
type Answer struct {
	Defer          bool   // leave the node for a later cycle
	Shutdown       bool   // stop the node
	Message        string // why
	Key            string // PEM private key
	Certificate    string // PEM, the node's own first
	CA             string // PEM
	SSLDir         string // where the node keeps them; the node's own word wins
	ServerClaims   *tokens.ServerClaims
	Claims         []string // the names in server_claims, sorted
	Configuration  map[string]string
	ActionPolicies map[string]string // file name to document
	OPAPolicies    map[string]string // file name to document
	Upgrade        string            // the version to upgrade to first
}

// The causes that an operator treats differently.
var (
	ErrFailed  = errors.New("the helper failed")
	ErrTimeout = errors.New("the helper took too long")
	ErrAnswer  = errors.New("the helper's answer is not usable")
)
