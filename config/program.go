package config

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// headerSize is how much of a file the kernel looks at to find out how to run it.
const headerSize = 256

// ProgramFault returns why the kernel does not start an executable file, as a
// predicate, and what to do about it. Both are empty when nothing is found. The
// kernel's own errors, "no such file" and "exec format error", tell neither.
func ProgramFault(path string) (fault, remedy string) {
	file, err := os.Open(path)
	if err != nil {
		return "", "" // a program may be run without the right to read it
	}
	defer file.Close()
	header := make([]byte, headerSize)
	n, err := io.ReadFull(file, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", ""
	}
	header = header[:n]
	switch {
	case n == 0:
		return "is empty", "write the program into it"
	case bytes.HasPrefix(header, []byte("\ufeff#!")):
		return "begins with a byte order mark, so that its #! line does not count", "save it without the mark"
	case bytes.HasPrefix(header, []byte("#!")):
		return scriptFault(header[2:])
	case bytes.HasPrefix(header, []byte(elf.ELFMAG)):
		return machineFault(file)
	case isText(header):
		return "is a text without a #! line", "begin it with its interpreter, such as #!/bin/sh"
	case runtime.GOOS == "linux":
		return "is in no format that this system runs", fmt.Sprintf("install the program for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return "", ""
}

// scriptFault looks at what stands behind #!. When the interpreter is not there,
// the kernel says only that the script does not exist.
func scriptFault(header []byte) (fault, remedy string) {
	line, _, _ := bytes.Cut(header, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return "has a #! line that names no interpreter", "begin it with one, such as #!/bin/sh"
	}
	if bytes.HasSuffix(line, []byte("\r")) {
		return "has a #! line that ends in CRLF, which becomes part of the interpreter's name or arguments", "save it with LF line ends"
	}
	if _, err := os.Stat(words[0]); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("is a script for %s, which does not exist", words[0]), "install that, or name the right one in the script's first line"
	}
	return "", ""
}

// machines lists what a processor runs by itself.
var machines = map[string][]elf.Machine{
	"amd64": {elf.EM_X86_64, elf.EM_386},
	"arm64": {elf.EM_AARCH64, elf.EM_ARM},
}

func machineFault(file io.ReaderAt) (fault, remedy string) {
	remedy = fmt.Sprintf("install the program for %s/%s", runtime.GOOS, runtime.GOARCH)
	program, err := elf.NewFile(file)
	if err != nil {
		return "is a damaged program", remedy
	}
	known, listed := machines[runtime.GOARCH]
	switch {
	case listed && !slices.Contains(known, program.Machine):
		return fmt.Sprintf("is a program for another machine (%s)", program.Machine), remedy
	case program.Type != elf.ET_EXEC && program.Type != elf.ET_DYN:
		return fmt.Sprintf("is no whole program (%s)", program.Type), remedy
	}
	return "", ""
}

// isText reports whether a file that begins like this was written in an editor.
// The last character of a full header may be cut off.
func isText(header []byte) bool {
	if len(header) == headerSize {
		header = header[:headerSize-utf8.UTFMax+1]
	}
	return !bytes.ContainsRune(header, 0) && utf8.Valid(header)
}
