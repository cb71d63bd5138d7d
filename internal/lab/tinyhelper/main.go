// Command tinyhelper answers every node with one template, in which
// @IDENTITY@ stands for the node's name: the cheapest helper there can be, for
// benchmarks. It reads one document after the other until its input ends.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "tinyhelper: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("name the file of the template")
	}
	template, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	questions := json.NewDecoder(in)
	for {
		var q struct {
			Identity string `json:"identity"`
		}
		switch err := questions.Decode(&q); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the input: %w", err)
		}
		answer := bytes.ReplaceAll(template, []byte("@IDENTITY@"), []byte(q.Identity))
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
}
