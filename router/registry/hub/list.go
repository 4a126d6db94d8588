package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is a file that can be downloaded.
type File struct {
	URL    string
	Name   string // without folders
	Size   int64  // 0: unknown
	SHA256 string // in hexadecimal; empty: unknown
	Token  string // for the URL's host
}

// Listing is what a source of files has.
type Listing struct {
	Files    []File // the files of one model, in order
	Revision string // that they are of
}

// Bounds of the hub's answers.
const (
	maxAnswerBytes = 32 << 20
	maxPages       = 50
)

type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// List finds the files of a repository of Hugging Face's that a source names. The revision is fixed by the first request,
// so that files of one model cannot be of two.
func (h *Hub) List(ctx context.Context, s Source) (Listing, error) {
	var info struct {
		SHA string `json:"sha"`
	}
	api := h.HuggingFace + "/api/models/" + s.Repository
	if _, err := h.json(ctx, s, api+"/revision/main", &info); err != nil {
		return Listing{}, err
	}
	revision := cmp.Or(info.SHA, "main")
	var entries []treeEntry
	next := api + "/tree/" + url.PathEscape(revision) + "?recursive=true"
	for page := 0; next != ""; page++ {
		if page == maxPages {
			return Listing{}, fmt.Errorf("%s lists more than %d pages of files", s.Repository, maxPages)
		}
		var some []treeEntry
		header, err := h.json(ctx, s, next, &some)
		if err != nil {
			return Listing{}, err
		}
		entries = append(entries, some...)
		if next, err = h.nextPage(header); err != nil {
			return Listing{}, err
		}
	}
	chosen, err := choose(entries, s)
	if err != nil {
		return Listing{}, err
	}
	out := Listing{Revision: revision}
	for _, e := range chosen {
		f := File{
			URL: h.HuggingFace + "/" + s.Repository + "/resolve/" + url.PathEscape(revision) + "/" + escapePath(e.Path), Name: path.Base(e.Path), Size: e.Size, Token: h.Token,
		}
		if e.LFS != nil {
			f.SHA256, f.Size = e.LFS.OID, cmp.Or(e.LFS.Size, e.Size)
		}
		if f.SHA256 != "" && !hexPattern.MatchString(f.SHA256) || f.Size < 0 {
			return Listing{}, fmt.Errorf("%s says that %s has %d bytes and the checksum %.80q", s.Repository, e.Path, f.Size, f.SHA256)
		}
		out.Files = append(out.Files, f)
	}
	return out, nil
}

var (
	hexPattern  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	nextPattern = regexp.MustCompile(`<([^>]+)>\s*;\s*rel="next"`)
)

// nextPage is the address of the next part of a list, which must be of the same hub: the token goes there.
func (h *Hub) nextPage(header http.Header) (string, error) {
	m := nextPattern.FindStringSubmatch(header.Get("Link"))
	if m == nil {
		return "", nil
	}
	if !strings.HasPrefix(m[1], h.HuggingFace+"/") {
		return "", fmt.Errorf("%s says that its list goes on at %.200q", h.HuggingFace, m[1])
	}
	return m[1], nil
}

func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// json asks the hub, again after failures that pass.
func (h *Hub) json(ctx context.Context, s Source, address string, into any) (http.Header, error) {
	retry := retries{pause: h.pause}
	for {
		header, err := h.jsonOnce(ctx, s, address, into)
		if err == nil || !retry.again(ctx, err) {
			return header, err
		}
	}
}

func (h *Hub) jsonOnce(ctx context.Context, s Source, address string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	authorize(req, h.Token)
	resp, err := h.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, h.explain(s, newStatusError(resp))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxAnswerBytes {
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", req.URL.Host, maxAnswerBytes)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("the answer of %s is not what its API gives: %w", req.URL.Host, err)
	}
	return resp.Header, nil
}

// explain adds to a refusal what helps.
func (h *Hub) explain(s Source, err *StatusError) error {
	switch err.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		if h.Token == "" {
			return fmt.Errorf("%w: %s does not exist, or is private or gated; set HF_TOKEN to a token that may read it", err, s.Repository)
		}
		return fmt.Errorf("%w: the token in HF_TOKEN may not read %s; accept its terms on %s/%s, or take another token", err, s.Repository, h.HuggingFace, s.Repository)
	case http.StatusNotFound:
		return fmt.Errorf("%w: there is no repository %s; look for its name on %s", err, s.Repository, h.HuggingFace)
	}
	return err
}

// splitFile is one of the files of a split model.
var splitFile = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// preferred are the quantisations that a name without one gets, the first that there is.
var preferred = []string{"Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16"}

// quantPattern finds the quantisation in a file's name.
var quantPattern = regexp.MustCompile(`(?i)(?:^|[-._/])((?:I?Q[0-9]_[A-Z0-9_]+)|(?:I?Q[0-9])|F16|BF16|F32|MXFP4(?:_MOE)?|TQ[0-9]_[0-9])(?:[-._/]|$)`)

// choose picks the files of one model: by their path, by quantisation, or by preference.
func choose(entries []treeEntry, s Source) ([]treeEntry, error) {
	groups := make(map[string][]treeEntry) // by path without the number of a split
	for _, e := range entries {
		if e.Type != "file" || !strings.HasSuffix(e.Path, ".gguf") || strings.Contains(strings.ToLower(path.Base(e.Path)), "mmproj") {
			continue
		}
		key := strings.TrimSuffix(e.Path, ".gguf")
		if m := splitFile.FindStringSubmatch(e.Path); m != nil {
			key = m[1]
		}
		groups[key] = append(groups[key], e)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%w: %s has no GGUF files; look for a repository whose name ends with -GGUF", ErrName, s.Repository)
	}
	tags := []string{s.Tag}
	if s.Tag == "" {
		tags = preferred
	}
	for _, tag := range tags {
		found := matching(groups, tag)
		if len(found) > 1 {
			return nil, fmt.Errorf("%w: %s has more than one file for %s: %s; give the name of one, such as hf.co/%s:%s.gguf", ErrName, s.Repository, tag, strings.Join(found, ", "), s.Repository, found[0])
		}
		if len(found) == 1 {
			return whole(groups[found[0]])
		}
	}
	if s.Tag == "" && len(groups) == 1 {
		for _, group := range groups {
			return whole(group)
		}
	}
	return nil, fmt.Errorf("%w: %s has no file for %s; it has %s", ErrName, s.Repository, cmp.Or(s.Tag, "one of "+strings.Join(preferred, ", ")), strings.Join(quantisations(groups), ", "))
}

// matching are the keys of the groups that a tag means.
func matching(groups map[string][]treeEntry, tag string) []string {
	if strings.HasSuffix(tag, ".gguf") {
		for key, group := range groups {
			if slices.ContainsFunc(group, func(e treeEntry) bool { return e.Path == tag }) {
				return []string{key}
			}
		}
		return nil
	}
	var found []string
	for key := range groups {
		for _, m := range quantPattern.FindAllStringSubmatch(key, -1) {
			if strings.EqualFold(m[1], tag) {
				found = append(found, key)
				break
			}
		}
	}
	slices.Sort(found)
	return found
}

func quantisations(groups map[string][]treeEntry) []string {
	names := make(map[string]bool)
	for key := range groups {
		if all := quantPattern.FindAllStringSubmatch(key, -1); len(all) > 0 {
			names[strings.ToUpper(all[len(all)-1][1])] = true
		} else {
			names[key+".gguf"] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// whole sorts the files of a split model, and refuses one of which some are missing.
func whole(group []treeEntry) ([]treeEntry, error) {
	slices.SortFunc(group, func(a, b treeEntry) int { return strings.Compare(a.Path, b.Path) })
	m := splitFile.FindStringSubmatch(group[0].Path)
	if m == nil {
		return group, nil
	}
	if want := fmt.Sprintf("%05d", len(group)); m[2] != "00001" || m[3] != want {
		return nil, fmt.Errorf("the model %s is split into %s files, and the repository has %d of them", m[1], m[3], len(group))
	}
	return group, nil
}

// errChanged says that a file is another one than when its download began.
var errChanged = errors.New("the file has changed on the server")
