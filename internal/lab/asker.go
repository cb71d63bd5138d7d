package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/client/rpcutilclient"
	"github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
)

// inventory is what a server in production says of itself.
type inventory struct {
	Collectives []string `json:"collectives"`
	Version     string   `json:"version"`
	Problem     string   `json:"problem"` // of a reply that is an error
}

// askLimit bounds one round of inventory requests.
const askLimit = 10 * time.Second

// ask sends rpcutil#inventory to nodes in the production collective and
// returns the replies by identity. A process of its own does it: an insecure
// network needs a setting that is one for the whole process.
func (l *Lab) ask(ctx context.Context, nodes []string) (map[string]inventory, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	in, err := json.Marshal(nodes)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "bin", askerName))
	cmd.Dir = "/"
	// go-choria's client races with itself; who tests with -race is after others
	cmd.Env = append(environment(), "GORACE=exitcode=0")
	cmd.Stdin = bytes.NewReader(in)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("asking the servers: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	var replies map[string]inventory
	if err := json.Unmarshal(out.Bytes(), &replies); err != nil {
		return nil, fmt.Errorf("asking the servers: %w", err)
	}
	return replies, nil
}

// runAsker is the process that asks.
func runAsker(dir string, in io.Reader, out io.Writer) error {
	var nodes []string
	if err := json.NewDecoder(in).Decode(&nodes); err != nil {
		return err
	}
	fw, err := clientFramework(dir, "verifier.conf")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	replies, err := askInventory(ctx, fw, nodes)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(replies)
}

// clientFramework is go-choria for a client of the lab in its production
// collective. On an insecure network it turns security off for the process.
func clientFramework(dir, file string) (*choria.Framework, error) {
	site, _, err := loadSite(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := config.NewSystemConfig(filepath.Join(dir, file), false)
	if err != nil {
		return nil, err
	}
	cfg.OverrideCertname = cfg.Identity
	if site.Enrollment == Insecure {
		cfg.DisableTLS = true
		protocol.Secure = "false"
	}
	if os.Getenv("USER") == "" { // go-choria's choria provider insists
		_ = os.Setenv("USER", "root")
	}
	return choria.NewWithConfig(cfg)
}

// oneWorker keeps go-choria's clients from ending a request while further
// workers still subscribe to its replies, which is a data race there.
const oneWorker = 1

func askInventory(ctx context.Context, fw *choria.Framework, nodes []string) (map[string]inventory, error) {
	client, err := rpcutilclient.New(fw)
	if err != nil {
		return nil, err
	}
	result, err := client.OptionTargets(nodes).OptionWorkers(oneWorker).Inventory().Do(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	replies := map[string]inventory{}
	result.EachOutput(func(r *rpcutilclient.InventoryOutput) {
		var reply inventory
		if err := r.ParseInventoryOutput(&reply); err != nil {
			reply.Problem = err.Error()
		}
		if !r.ResultDetails().OK() {
			reply.Problem = r.ResultDetails().StatusMessage()
		}
		mu.Lock()
		defer mu.Unlock()
		replies[r.ResultDetails().Sender()] = reply
	})
	return replies, nil
}
