package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// target is one package: its format, architecture and directory.
type target struct{ format, arch, out string }

const description = `Brings Choria fleet nodes into service
A machine that runs Choria Server without a configuration waits in
provisioning mode. provision finds such nodes, asks the site's helper what
their configuration must be, sends it and restarts them.`

// pack writes one package.
func pack(s source, t target, entries []entry) error {
	staged, err := os.MkdirTemp("", "provision-contents-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	info := packageInfo(s, t)
	if info.Contents, err = stage(s, t, entries, staged); err != nil {
		return err
	}
	packager, err := nfpm.Get(t.format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, t.format); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(t.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, file); err != nil {
		return err
	}
	return file.Close()
}

func packageInfo(s source, t target) *nfpm.Info {
	script := func(name string) string { return filepath.Join(s.root, "packaging", "scripts", name) }
	info := &nfpm.Info{
		Name: "choria-provision", Arch: t.arch, Platform: "linux",
		Version: s.version, VersionSchema: "none", Release: "1",
		Section: "admin", Priority: "optional", License: "Apache-2.0",
		Maintainer: "The authors of choria-provision <choria-provision@localhost>", Homepage: "https://choria.io",
		Description: description, MTime: s.date, DisableGlobbing: true,
	}
	info.Suggests = []string{"logrotate"}
	info.Scripts = nfpm.Scripts{PostInstall: script("postinst.sh"), PreRemove: script("prerm.sh"), PostRemove: script("postrm.sh")}
	if t.format == "rpm" {
		info.Scripts.PreInstall = script("preinst-rpm.sh")
		info.RPM.BuildHost = "localhost" // otherwise that of the machine
		info.RPM.Compression = "zstd"
		info.RPM.Summary = strings.SplitN(description, "\n", 2)[0]
	}
	return info
}

// stage writes entries below dir, since nfpm reads files, and lists them.
func stage(s source, t target, entries []entry, dir string) (files.Contents, error) {
	var contents files.Contents
	for i, e := range entries {
		c := &files.Content{
			Destination: e.path, Type: contentType(e, t.format),
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: e.group, Mode: e.mode, MTime: s.date},
		}
		if !e.dir {
			c.Source = filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(c.Source, e.data, 0o600); err != nil {
				return nil, err
			}
		}
		contents = append(contents, c)
	}
	return contents, nil
}

func contentType(e entry, format string) string {
	doc := format == "rpm" && strings.HasPrefix(e.path, "/usr/share/doc/")
	switch {
	case e.dir:
		return files.TypeDir
	case e.config:
		return files.TypeConfigNoReplace
	case doc && filepath.Base(e.path) == "LICENSE":
		return files.TypeRPMLicense
	case doc:
		return files.TypeRPMDoc
	default:
		return files.TypeFile
	}
}
