package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
	golang "github.com/choria-io/go-choria/providers/agent/mcorpc/golang"
	"github.com/choria-io/go-choria/server"
	"github.com/choria-io/go-choria/server/agents"
	"github.com/sirupsen/logrus"
)

// Action is one request that a server's agent handled.
type Action struct {
	Time    time.Time `json:"time"` // when the reply was ready
	Name    string    `json:"action,omitempty"`
	Caller  string    `json:"caller,omitempty"`
	Status  int       `json:"status"` // 0 is OK, as in a reply
	Message string    `json:"message,omitempty"`

	// Started makes it no action but a start, ready for requests: in
	// "provisioning" or "production".
	Started string `json:"started,omitempty"`
	Version string `json:"version,omitempty"`
}

// journal is where a server writes down what happens to it.
type journal struct{ dir string }

func (j journal) write(a Action) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	file, err := openLog(filepath.Join(j.dir, journalFile))
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func (j journal) read() ([]Action, error) {
	text, err := os.ReadFile(filepath.Join(j.dir, journalFile))
	if errors.Is(err, os.ErrNotExist) { // nothing has happened yet
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Action
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' { // being written
			break
		}
		var a Action
		if err := json.Unmarshal(line, &a); err != nil {
			return list, fmt.Errorf("reading %s: %w", journalFile, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func (j journal) started(fw *choria.Framework) error {
	mode := "production"
	if fw.ProvisionMode() {
		mode = "provisioning"
	}
	return j.write(Action{Time: time.Now(), Started: mode, Version: fw.BuildInfo().Version()})
}

// Actions lists what a server was asked to do in all its life so far, by
// any client, in order: broadcasts as discovery#ping, requests as agent#action.
// What Verify asks is in it too, in production. An entry is there before its
// reply is sent.
func (l *Lab) Actions(name string) ([]Action, error) {
	all, err := journal{l.NodeDir(name)}.read()
	var actions []Action
	for _, a := range all {
		if a.Started == "" {
			actions = append(actions, a)
		}
	}
	return actions, err
}

// recordingProvider registers go-choria's own agents through a
// recordingManager.
type recordingProvider struct {
	*golang.Provider
	log journal
}

func (p recordingProvider) RegisterAgents(ctx context.Context, mgr server.AgentManager, conn inter.AgentConnector, log *logrus.Entry) error {
	return p.Provider.RegisterAgents(ctx, recordingManager{mgr, p.log}, conn, log)
}

// recordingManager wraps each agent that is registered.
type recordingManager struct {
	server.AgentManager
	log journal
}

func (m recordingManager) RegisterAgent(ctx context.Context, name string, agent agents.Agent, conn inter.AgentConnector) error {
	return m.AgentManager.RegisterAgent(ctx, name, recordingAgent{agent, m.log}, conn)
}

// recordingAgent writes down each request before its reply goes out.
type recordingAgent struct {
	agents.Agent
	log journal
}

func (a recordingAgent) HandleMessage(ctx context.Context, msg inter.Message, request protocol.Request, conn inter.ConnectorInfo, out chan *agents.AgentReply) {
	entry := Action{Name: a.Name() + "#ping", Caller: request.CallerID()}
	var body struct {
		Action string `json:"action"`
		Data   struct {
			Version string `json:"version"`
		} `json:"data"`
	}
	if json.Unmarshal(msg.Payload(), &body) == nil && body.Action != "" {
		entry.Name = a.Name() + "#" + body.Action
	}
	if body.Action == "release_update" {
		a.wants(body.Data.Version)
	}

	replies := make(chan *agents.AgentReply, 1)
	a.Agent.HandleMessage(ctx, msg, request, conn, replies)
	entry.Time = time.Now()
	select {
	case reply := <-replies:
		entry.Status, entry.Message = status(reply)
		a.note(entry)
		out <- reply
	default:
		a.note(entry)
	}
}

// wants keeps the version for the release that is about to be fetched: see
// repository.go.
func (a recordingAgent) wants(version string) {
	if err := saveFiles(a.log.dir, map[string][]byte{wantedFile: []byte(version + "\n")}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (a recordingAgent) note(entry Action) {
	if err := a.log.write(entry); err != nil { // into server.log: the process's output
		fmt.Fprintln(os.Stderr, "journal:", err)
	}
}

func status(reply *agents.AgentReply) (int, string) {
	if reply.Error != nil {
		return 5, reply.Error.Error()
	}
	var body struct {
		Code    int    `json:"statuscode"`
		Message string `json:"statusmsg"`
	}
	_ = json.Unmarshal(reply.Body, &body) // discovery's is no JSON: OK
	if body.Code == 0 {
		return 0, ""
	}
	return body.Code, body.Message
}
