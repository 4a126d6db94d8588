package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	tagged = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)$`)
	after  = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)-(\d+)-(g[0-9a-f]+)$`)
	bare   = regexp.MustCompile(`^([0-9a-f]{7,40})$`)
)

// numbered is what `git describe --tags --always --dirty` says as a semantic version that packages sort after the tag before it.
func numbered(described string) (string, error) {
	clean, dirty := strings.CutSuffix(described, "-dirty")
	number, build := "", []string(nil)
	if m := tagged.FindStringSubmatch(clean); m != nil {
		number = m[1]
	} else if m := after.FindStringSubmatch(clean); m != nil {
		number, build = m[1], m[2:4]
	} else if m := bare.FindStringSubmatch(clean); m != nil {
		number, build = "0.0.0", []string{"g" + m[1]}
	} else {
		return "", fmt.Errorf("the version is %q; tags are vMAJOR.MINOR.PATCH, as v0.1.0", described)
	}
	if dirty {
		build = append(build, "dirty")
	}
	if len(build) > 0 {
		number += "+" + strings.Join(build, ".")
	}
	return number, nil
}
