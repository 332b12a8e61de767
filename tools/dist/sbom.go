package main

import (
	"crypto/sha1" // SPDX 2.3 demands it beside SHA-256
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The parts of SPDX 2.3 that are needed here.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Files         []spdxFile         `json:"files"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string    `json:"SPDXID"`
		Name      string    `json:"name"`
		Version   string    `json:"versionInfo"`
		Source    string    `json:"sourceInfo,omitempty"`
		Location  string    `json:"downloadLocation"`
		Analyzed  bool      `json:"filesAnalyzed"`
		License   string    `json:"licenseConcluded"`
		Declared  string    `json:"licenseDeclared"`
		Copyright string    `json:"copyrightText"`
		Purpose   string    `json:"primaryPackagePurpose"`
		Refs      []spdxRef `json:"externalRefs"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxFile struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"fileName"`
		Types     []string       `json:"fileTypes"`
		Checksums []spdxChecksum `json:"checksums"`
		License   string         `json:"licenseConcluded"`
		Copyright string         `json:"copyrightText"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const (
	sbomProgram = "SPDXRef-Package-herdr-link"
	sbomStd     = "SPDXRef-Package-std"
)

// sbom writes what the binaries consist of: this program and Go's standard
// library. readBuilds has made sure that there is nothing else.
func (d *dist) sbom() error {
	source := ""
	if d.commit != "" {
		source = "git commit " + d.commit
	}
	doc := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "herdr-link-" + d.version,
		Creation: spdxCreation{d.when.UTC().Format(time.RFC3339), []string{"Tool: herdr-link-dist-" + d.version}},
		Packages: []spdxPackage{
			{ID: sbomProgram, Name: "herdr-link", Version: d.version, Source: source, Purpose: "APPLICATION",
				License: "MIT", Refs: purl("pkg:generic/herdr-link@" + d.version), Copyright: copyright(d.notices[0])},
			{ID: sbomStd, Name: "std", Version: strings.TrimPrefix(d.golang, "go"), Purpose: "LIBRARY",
				License: "BSD-3-Clause", Refs: purl("pkg:golang/std@" + strings.TrimPrefix(d.golang, "go")), Copyright: copyright(d.notices[1])},
		},
		Relationships: []spdxRelationship{
			{"SPDXRef-DOCUMENT", "DESCRIBES", sbomProgram},
			{sbomProgram, "DEPENDS_ON", sbomStd},
		},
	}
	for i := range doc.Packages {
		p := &doc.Packages[i]
		p.Declared, p.Location = p.License, "NOASSERTION"
	}
	all := sha256.New()
	for _, b := range d.builds {
		sum1, sum256 := sha1.Sum(b.binary.data), sha256.Sum256(b.binary.data)
		all.Write(sum256[:])
		id := fmt.Sprintf("SPDXRef-File-%s-%s", b.goos, b.goarch)
		doc.Files = append(doc.Files, spdxFile{
			ID: id, Name: fmt.Sprintf("./bin/%s/%s/%s", b.goos, b.goarch, b.binary.name), Types: []string{"BINARY"},
			Checksums: []spdxChecksum{{"SHA1", hex.EncodeToString(sum1[:])}, {"SHA256", hex.EncodeToString(sum256[:])}},
			License:   "MIT AND BSD-3-Clause", Copyright: "NOASSERTION",
		})
		doc.Relationships = append(doc.Relationships,
			spdxRelationship{"SPDXRef-DOCUMENT", "DESCRIBES", id},
			spdxRelationship{id, "GENERATED_FROM", sbomProgram},
			spdxRelationship{id, "STATIC_LINK", sbomStd})
	}
	doc.Namespace = "urn:uuid:" + uuid(all.Sum(nil))
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return d.write("", file{"herdr-link-" + d.version + ".spdx.json", 0o644, append(data, '\n')})
}

func purl(s string) []spdxRef { return []spdxRef{{"PACKAGE-MANAGER", "purl", s}} }

// copyright finds the line in a licence.
func copyright(f file) string {
	for line := range strings.Lines(string(f.data)) {
		if strings.HasPrefix(line, "Copyright ") {
			return strings.TrimSpace(line)
		}
	}
	return "NOASSERTION"
}

// uuid makes one of RFC 9562's version 8, whose bits are our own, from a hash:
// equal binaries have equal documents.
func uuid(sum []byte) string {
	b := sum[:16:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
