package main

import (
	"bytes"
	"fmt"
	"text/template"
)

// What npm calls the platforms.
var (
	npmOS  = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}
	npmCPU = map[string]string{"amd64": "x64", "arm64": "arm64"}
)

// A platform is a package with a binary, as the templates see it.
type platform struct {
	Version, Name, OS, CPU, File string
	build                        build
}

// npm writes the packages as folders, ready for npm pack and npm publish.
func (d *dist) npm() error {
	var all []platform
	for _, b := range d.builds {
		system, cpu := npmOS[b.goos], npmCPU[b.goarch]
		if system == "" || cpu == "" {
			return fmt.Errorf("npm has no name for %s/%s", b.goos, b.goarch)
		}
		all = append(all, platform{d.version, "@herdr-link/" + system + "-" + cpu, system, cpu, "bin/" + b.binary.name, b})
	}
	launcher, err := d.source("npm/herdr-link/bin/herdr-link.js")
	if err != nil {
		return err
	}
	main := struct {
		Version   string
		Platforms []platform
	}{d.version, all}
	if err := d.npmPackage("npm/herdr-link", "herdr-link", main, file{"bin/herdr-link.js", 0o755, launcher}); err != nil {
		return err
	}
	for _, p := range all {
		if err := d.npmPackage("npm/platform", p.Name, p, file{p.File, 0o755, p.build.binary.data}); err != nil {
			return err
		}
	}
	return nil
}

// npmPackage fills in the templates of a folder and adds the program.
func (d *dist) npmPackage(from, name string, data any, program file) error {
	files := append([]file{program}, d.notices...)
	for _, text := range []string{"package.json", "README.md"} {
		source, err := d.source(from + "/" + text + ".tmpl")
		if err != nil {
			return err
		}
		t, err := template.New(from + "/" + text).Option("missingkey=error").Parse(string(source))
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, data); err != nil {
			return err
		}
		files = append(files, file{text, 0o644, b.Bytes()})
	}
	return d.write("npm/"+name, files...)
}
