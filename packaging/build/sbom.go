package main

import (
	"os"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// writeSBOM lists the modules that a program was built from, in CycloneDX's form.
func writeSBOM(s source, program, path string) error {
	generator, err := bin.NewGenerator(program,
		bin.WithIncludeStdlib(true), bin.WithVersionOverride(s.version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	bom.Metadata.Timestamp = s.date.Format(time.RFC3339)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return file.Close()
}
