package config

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// program is an ELF header and nothing else.
func program(machine elf.Machine, kind elf.Type) string {
	header := make([]byte, 64)
	copy(header, elf.ELFMAG)
	header[elf.EI_CLASS], header[elf.EI_DATA], header[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	binary.LittleEndian.PutUint16(header[16:], uint16(kind))
	binary.LittleEndian.PutUint16(header[18:], uint16(machine))
	binary.LittleEndian.PutUint32(header[20:], uint32(elf.EV_CURRENT))
	binary.LittleEndian.PutUint16(header[52:], 64)
	return string(header)
}

func TestProgramsThatTheKernelDoesNotStart(t *testing.T) {
	t.Parallel()
	if machines[runtime.GOARCH] == nil || runtime.GOOS != "linux" {
		t.Skip("programs of this system are not looked into")
	}
	tests := []struct{ name, text, fault string }{
		{"script", "#!/bin/sh\n", ""},
		{"script with arguments", "#! /bin/sh -eu\necho\n", ""},
		{"script without a line end", "#!/bin/sh", ""},
		{"program", program(machines[runtime.GOARCH][0], elf.ET_DYN), ""},
		{"empty", "", "is empty"},
		{"no #! line", "echo hello\n", "is a text without a #! line"},
		{"a letter cut off at the end of what is read", "x" + strings.Repeat("é", headerSize), "is a text without a #! line"},
		{"blank line before it", "\n#!/bin/sh\n", "is a text without a #! line"},
		{"byte order mark before it", "\ufeff#!/bin/sh\n", "begins with a byte order mark"},
		{"CRLF", "#!/bin/sh\r\necho\r\n", "has a #! line that ends in CRLF"},
		{"CRLF behind an argument", "#!/usr/bin/env python3\r\n", "has a #! line that ends in CRLF"},
		{"no interpreter", "#!\n", "has a #! line that names no interpreter"},
		{"interpreter that is gone", "#!/nowhere/ruby -w\n", "is a script for /nowhere/ruby, which does not exist"},
		{"another machine", program(elf.EM_S390, elf.ET_EXEC), "is a program for another machine (EM_S390)"},
		{"object file", program(machines[runtime.GOARCH][0], elf.ET_REL), "is no whole program (ET_REL)"},
		{"half a program", elf.ELFMAG, "is a damaged program"},
		{"something compressed", "\x1f\x8b\x08\x08", "is in no format that this system runs"},
		{"something else", "PK\x03\x04\x00\x00", "is in no format that this system runs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "helper")
			if err := os.WriteFile(path, []byte(tt.text), 0o700); err != nil {
				t.Fatal(err)
			}
			fault, remedy := ProgramFault(path)
			if (fault == "") != (tt.fault == "") || !strings.HasPrefix(fault, tt.fault) || (fault == "") != (remedy == "") {
				t.Errorf("got %q and remedy %q, want %q", fault, remedy, tt.fault)
			}
			cfg := Default()
			cfg.Helper.Args = []string{path}
			if found := checkHelper(cfg, ""); (len(found) == 1) != (tt.fault != "") {
				t.Errorf("got %+v from config check, want %q", found, tt.fault)
			}
		})
	}
}
