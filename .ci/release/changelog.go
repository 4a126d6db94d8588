package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// heading begins the lines of a release in CHANGELOG.md.
var heading = regexp.MustCompile(`(?m)^## \[(\d[^\]]*)\] - \d{4}-\d{2}-\d{2}$`)

// checkHeading wants that the release of a tag is the newest one of CHANGELOG.md. Builds of other commits are no releases.
func (r *release) checkHeading() error {
	m := tagged.FindStringSubmatch(r.described)
	if m == nil || strings.HasSuffix(r.described, "-dirty") {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	newest := heading.FindSubmatch(text)
	switch {
	case newest == nil:
		return fmt.Errorf("CHANGELOG.md has no release, and the tag is %s; head its lines with ## [%s] - YYYY-MM-DD before the tag is made", r.described, m[1])
	case string(newest[1]) != m[1]:
		return fmt.Errorf("the newest release of CHANGELOG.md is %s, and the tag is %s; head its lines with ## [%s] - YYYY-MM-DD before the tag is made",
			newest[1], r.described, m[1])
	}
	return nil
}
