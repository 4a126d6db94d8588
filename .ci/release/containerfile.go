package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// recipe is what a Containerfile says: files that are copied onto nothing, and how the image starts.
type recipe struct {
	copies []copied
	config v1.Config
}

type copied struct{ from, to string }

// parseContainerfile reads the instructions that an image of files alone needs, and refuses others: one that was left out would make
// another image than docker build does.
func parseContainerfile(text []byte) (recipe, error) {
	var r recipe
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		instruction, rest, _ := strings.Cut(line, " ")
		if err := r.instruct(instruction, strings.TrimSpace(rest)); err != nil {
			return recipe{}, fmt.Errorf("line %d, %q: %w", n, line, err)
		}
	}
	if len(r.copies) == 0 || len(r.config.Entrypoint) == 0 {
		return recipe{}, fmt.Errorf("no COPY or no ENTRYPOINT")
	}
	return r, lines.Err()
}

func (r *recipe) instruct(instruction, rest string) (err error) {
	words := strings.Fields(rest)
	if rest == "" || strings.HasSuffix(rest, `\`) || strings.Contains(rest, "$") {
		return fmt.Errorf("lines that go on, variables and empty instructions are not supported")
	}
	switch instruction {
	case "FROM":
		if rest != "scratch" {
			err = fmt.Errorf("only scratch is supported")
		}
	case "COPY":
		err = r.copy(words)
	case "USER":
		r.config.User = rest
	case "WORKDIR":
		r.config.WorkingDir = rest
	case "EXPOSE":
		r.config.ExposedPorts = set(r.config.ExposedPorts, words, func(port string) string {
			if !strings.Contains(port, "/") {
				port += "/tcp"
			}
			return port
		})
	case "VOLUME":
		r.config.Volumes = set(r.config.Volumes, words, func(folder string) string { return folder })
	case "ENTRYPOINT":
		err = json.Unmarshal([]byte(rest), &r.config.Entrypoint)
	case "CMD":
		err = json.Unmarshal([]byte(rest), &r.config.Cmd)
	case "ENV":
		r.config.Env = append(r.config.Env, words...)
	case "LABEL":
		err = r.label(rest)
	default:
		err = fmt.Errorf("the instruction %s is not supported", instruction)
	}
	return err
}

func (r *recipe) copy(words []string) error {
	if len(words) < 2 || strings.HasPrefix(words[0], "-") {
		return fmt.Errorf("COPY takes names of files and a place, and no flags here")
	}
	to := words[len(words)-1]
	if len(words) > 2 && !strings.HasSuffix(to, "/") {
		return fmt.Errorf("several files go to a folder, which ends with /")
	}
	for _, from := range words[:len(words)-1] {
		place := to
		if strings.HasSuffix(to, "/") {
			place = path.Join(to, path.Base(from))
		}
		r.copies = append(r.copies, copied{from, strings.TrimPrefix(path.Clean(place), "/")})
	}
	return nil
}

// label reads one NAME="VALUE".
func (r *recipe) label(rest string) error {
	name, quoted, ok := strings.Cut(rest, "=")
	var value string
	if err := json.Unmarshal([]byte(quoted), &value); !ok || err != nil {
		return fmt.Errorf(`write one label a line, as NAME="VALUE"`)
	}
	if r.config.Labels == nil {
		r.config.Labels = map[string]string{}
	}
	r.config.Labels[name] = value
	return nil
}

func set(to map[string]struct{}, words []string, name func(string) string) map[string]struct{} {
	if to == nil {
		to = map[string]struct{}{}
	}
	for _, w := range words {
		to[name(w)] = struct{}{}
	}
	return to
}
