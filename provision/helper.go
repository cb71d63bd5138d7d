package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"choria-provision/config"
)

// Helper is the site's own program that decides what a node's configuration
// is. Errors unwrap to ErrHelper, ErrHelperTimeout or ErrHelperAnswer.
type Helper interface {
	Answer(ctx context.Context, in HelperInput) (Answer, error)
}

// HelperInput is what the helper reads from stdin: these keys, always, null
// when the step that fills them is off. Our token, our keys and the helper's
// own path are not among them.
type HelperInput struct {
	Identity  string          `json:"identity"`
	CSR       *HelperCSR      `json:"csr"`            // with pki
	ED25519   *HelperED25519  `json:"ed25519_pubkey"` // with ed25519
	Inventory string          `json:"inventory"`      // the rpcutil#inventory reply, JSON in a string
	JWT       json.RawMessage `json:"jwt"`            // with jwt: the verified claims, an object
}

// HelperCSR is what the node answered to choria_provision#gencsr: PEM texts and
// the directory it keeps its credentials in.
type HelperCSR struct {
	CSR       string `json:"csr"`
	PublicKey string `json:"public_key"`
	SSLDir    string `json:"ssldir"`
}

// HelperED25519 is what the node answered to choria_provision#gen25519: hex
// texts and the directory it keeps its seed in.
type HelperED25519 struct {
	PublicKey string `json:"public_key"`
	Directory string `json:"directory"`
	Signature string `json:"signature"`
}

// ExecHelper runs the helper as a child process, one for each answer.
type ExecHelper struct {
	Command config.Command
	Timeout time.Duration // 0: the default of helper_timeout, 10 s
	Env     []string      // NAME=value, added to our own environment

	grace time.Duration         // between the polite signal and the hard one; 0: childGrace
	wait  func(context.Context) // between two attempts to start a busy program; nil: a moment
}

// Answer starts the helper, gives it the input as JSON on stdin and reads its
// answer from stdout. Whatever the helper leaves running in its process group
// is ended with it. Its exit code wins over a good-looking answer; a cancelled
// ctx ends it and gives an error that unwraps to ErrHelper and to ctx's cause.
func (h ExecHelper) Answer(ctx context.Context, in HelperInput) (Answer, error) {
	if len(h.Command.Args) == 0 {
		return Answer{}, fmt.Errorf("%w: none is configured; set helper", ErrHelper)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: encoding its input: %w", ErrHelper, err)
	}
	child := child{args: h.Command.Args, env: h.Env, input: input, grace: h.grace, wait: h.wait}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = config.Default().HelperTimeout.Duration
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTooSlow)
	defer cancel()
	if err := explainHelper(child.run(limited), child, timeout); err != nil {
		return Answer{}, err
	}
	answer, err := parseAnswer(child.stdout)
	if err != nil {
		return Answer{}, fmt.Errorf("%w%s", err, child.said())
	}
	return answer, nil
}

// The ways a child process ends early, beside those of the caller's context.
var (
	errTooSlow = errors.New("too slow")
	errTooLong = errors.New("too long an answer")
)

// explainHelper turns the end of a child into the cause an operator knows.
func explainHelper(err error, c child, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooSlow):
		return fmt.Errorf("%w: %s had not answered after %s (helper_timeout)%s", ErrHelperTimeout, c.args[0], timeout, c.said())
	case errors.Is(err, errTooLong):
		return fmt.Errorf("%w: it is longer than %d MiB%s", ErrHelperAnswer, answerLimit>>20, c.said())
	case errors.Is(err, ErrHelperAnswer):
		return fmt.Errorf("%w%s", err, c.said())
	default:
		return fmt.Errorf("%w: %s: %w%s", ErrHelper, c.args[0], err, c.said())
	}
}

// said quotes the end of what the child wrote to stderr.
func (c child) said() string {
	text := bytes.TrimSpace(c.stderr)
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said: %s", bytes.ToValidUTF8(text, []byte("?")))
}
