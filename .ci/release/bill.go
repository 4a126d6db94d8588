package main

import (
	"bytes"
	"runtime/debug"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

const billTool = "github.com/CycloneDX/cyclonedx-gomod"

// bill writes the software bill of materials in CycloneDX: the modules that the binary itself says it is linked from.
func (r *release) bill(b built) error {
	generator, err := bin.NewGenerator(b.path, bin.WithVersionOverride("v"+r.number), bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	name := "weir_" + r.number + "_" + b.String() + ".cdx.json"
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(name+" "+r.commit)).String()
	bom.Metadata.Timestamp = r.at.Format(time.RFC3339)
	bom.Metadata.Tools = &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{
		{Type: cyclonedx.ComponentTypeApplication, Name: billTool, Version: moduleVersion(billTool)},
	}}
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return err
	}
	return r.put(name, out.Bytes())
}

// moduleVersion is the version of a module that this program is built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return ""
}
