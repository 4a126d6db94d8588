package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"weir/router/registry/hub"
)

// Remote says how registries are spoken to.
type Remote struct {
	PlainHTTP          bool   // where the host is not this machine, which is spoken to without TLS anyway
	Username, Password string // empty: those of Docker's configuration for the host
	Transport          http.RoundTripper

	// Move is asked whether a push may give a tag another version than the one that it names; nil: it may not.
	Move func(before string) bool
}

// peer is a repository of a registry elsewhere.
type peer struct {
	repo *remote.Repository
	// download sends requests without retries of its own.
	download func(*http.Request) (*http.Response, error)
}

func (o Remote) open(reference string) (*peer, error) {
	repo, err := remote.NewRepository(reference)
	if err != nil {
		return nil, fmt.Errorf("%s is not HOST/NAME:TAG of a registry: %w", reference, err)
	}
	repo.PlainHTTP = o.PlainHTTP || isLoopback(repo.Reference.Host())
	repo.ManifestMediaTypes = []string{ocispec.MediaTypeImageManifest, typeDockerManifest, ocispec.MediaTypeImageIndex}
	credential := auth.CredentialFunc(nil)
	if o.Username != "" || o.Password != "" {
		credential = auth.StaticCredential(repo.Reference.Host(), auth.Credential{Username: o.Username, Password: o.Password})
	} else if store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{}); err == nil {
		credential = credentials.Credential(store)
	}
	client := func(t http.RoundTripper) *auth.Client {
		c := hub.NewClient()
		c.Transport = t
		return &auth.Client{Client: c, Cache: auth.NewCache(), Credential: credential, Header: http.Header{"User-Agent": {"weir"}}}
	}
	base := o.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	repo.Client = client(retry.NewTransport(base))
	return &peer{repo, client(base).Do}, nil
}

func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// explain adds to a refusal what helps.
func (p *peer) explain(err error) error {
	host := p.repo.Reference.Registry
	status := 0
	if e, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		status = e.StatusCode
	} else if e, ok := errors.AsType[*hub.StatusError](err); ok {
		status = e.Status
	}
	switch {
	case err == nil:
		return nil
	case status == http.StatusUnauthorized || status == http.StatusForbidden || errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%w; log in to %s with docker login, or set WEIR_REGISTRY_USERNAME and WEIR_REGISTRY_PASSWORD", err, host)
	case errors.Is(err, errdef.ErrNotFound) || status == http.StatusNotFound:
		return fmt.Errorf("%w: %s has no %s: %w", ErrNotFound, host, strings.TrimPrefix(p.repo.Reference.String(), p.repo.Reference.Registry+"/"), err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%w; give --plain-http if %s is meant to be without TLS", err, host)
	}
	return err
}

// Push copies a version to a registry: the blobs that it lacks, then the manifest, so that a push that is cut has shown
// nothing and the next one sends what is missing. The bytes are compared with their digests before.
func (r *Registry) Push(ctx context.Context, version, reference string, o Remote, progress Progress) (Version, error) {
	p, err := o.open(reference)
	if err != nil {
		return Version{}, err
	}
	held, err := r.Load(ctx, version, nil)
	if err != nil {
		return Version{}, err
	}
	defer func() { _ = held.Release() }()
	v := held.Version
	// TAG, DIGEST or nothing, which is latest.
	tag := cmp.Or(p.repo.Reference.Reference, DefaultTag)
	if err := p.mayName(ctx, tag, &v, o.Move); err != nil {
		return v, err
	}
	var total, done int64
	blobs := append([]ocispec.Descriptor{v.manifest.Config}, v.manifest.Layers...)
	for _, b := range blobs {
		total += b.Size
	}
	for _, b := range blobs {
		before := done
		err := r.pushBlob(ctx, p, b, func(n int64) { done = before + n; progress(done, total) })
		if err != nil {
			return v, fmt.Errorf("push %s to %s: %w", b.Digest, reference, p.explain(err))
		}
		done = before + b.Size
		progress(done, total)
	}
	f, err := openRegular(r.blobPath(v.Digest))
	if err != nil {
		return v, err
	}
	defer f.Close()
	if err := p.repo.Manifests().PushReference(ctx, v.desc, f, tag); err != nil {
		return v, fmt.Errorf("push the manifest to %s: %w", reference, p.explain(err))
	}
	return v, nil
}

// ErrTagTaken is a tag of a registry that names another version.
var ErrTagTaken = errors.New("the tag names another version")

// mayName refuses to move a tag from another version, unless move says so.
func (p *peer) mayName(ctx context.Context, tag string, v *Version, move func(string) bool) error {
	there, err := p.repo.Manifests().Resolve(ctx, tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look what %s is: %w", p.repo.Reference, p.explain(err))
	case there.Digest == v.Digest, move != nil && move(there.Digest.String()):
		return nil
	}
	return fmt.Errorf("%w: %s is %s, and what is pushed is %s; push under another tag, or move this one with --force", ErrTagTaken, p.repo.Reference, there.Digest, v.Digest)
}

// pushTries is how often a blob is sent before a push fails: a registry takes a blob whole or not at all.
const pushTries = 4

func (r *Registry) pushBlob(ctx context.Context, p *peer, b ocispec.Descriptor, sent func(int64)) error {
	for try := 1; ; try++ {
		err := r.pushOnce(ctx, p, b, sent)
		response, refused := errors.AsType[*errcode.ErrorResponse](err)
		if err == nil || try == pushTries || ctx.Err() != nil || refused && response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests {
			return err
		}
		if err := pause(ctx, time.Duration(try)*500*time.Millisecond); err != nil {
			return err
		}
	}
}

func (r *Registry) pushOnce(ctx context.Context, p *peer, b ocispec.Descriptor, sent func(int64)) error {
	there, err := p.repo.Blobs().Exists(ctx, b)
	if err != nil || there {
		return err
	}
	f, err := openRegular(r.blobPath(b.Digest))
	if err != nil {
		return err
	}
	defer f.Close()
	return p.repo.Blobs().Push(ctx, b, &counter{Reader: f, told: sent})
}

// counter tells how many bytes have been read.
type counter struct {
	io.Reader
	n    int64
	told func(int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.told(c.n)
	return n, err
}

// Room bounds the disk that pulled versions have together.
type Room struct {
	Bytes int64    // 0: any
	Keep  []string // aliases that stay
}

// Pull is a version to be brought in from a registry.
type Pull struct {
	Reference string // HOST/NAME:TAG or HOST/NAME@sha256:DIGEST
	Name      string // alias that it gets here, NAME:TAG
	Remote    Remote
	Room      Room
	Progress  Progress
}

// Pull copies a version from a registry and points an alias at it. Blobs that are here are not transferred, a transfer
// that was cut goes on where it was, whichever process began it, and two processes that pull the same transfer it once. Bytes are
// compared with their digests; nothing is visible before all of it is on disk.
func (r *Registry) Pull(ctx context.Context, pull Pull) (Version, error) {
	ref, err := ParseRef(pull.Name)
	if err != nil {
		return Version{}, err
	}
	p, err := pull.Remote.open(pull.Reference)
	if err != nil {
		return Version{}, err
	}
	wrong := func(err error) (Version, error) {
		return Version{}, fmt.Errorf("pull %s: %w", pull.Reference, p.explain(err))
	}
	desc, data, err := p.manifest(ctx, cmp.Or(p.repo.Reference.Reference, DefaultTag))
	if err != nil {
		return wrong(err)
	}
	m, err := parseManifest(data)
	if err == nil {
		_, err = filesOf(m)
	}
	if err != nil {
		return wrong(err)
	}
	in, err := r.newIngest(ctx)
	if err != nil {
		return wrong(err)
	}
	defer in.Close()
	var list []wanted
	for _, b := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		list = append(list, wanted{digest: b.Digest, size: b.Size, file: p.file(b)})
	}
	d := &hub.Downloader{Do: func(req *http.Request) (*http.Response, error) {
		return p.download(req.WithContext(auth.AppendRepositoryScope(req.Context(), p.repo.Reference, auth.ActionPull)))
	}}
	if _, err := in.bring(ctx, d, list, pull.Room, pull.Progress); err != nil {
		return wrong(err)
	}
	if err := in.addBytes(ctx, data); err != nil {
		return wrong(err)
	}
	e := &entry{desc: desc, name: ref.Name, source: pull.Reference}
	return r.finish(ctx, in, e, ref)
}

// finish makes what is on disk visible.
func (r *Registry) finish(ctx context.Context, in *ingest, e *entry, ref Ref) (Version, error) {
	err := in.publish(ctx, e, ref)
	if _, late := errors.AsType[*AuditError](err); err != nil && !late {
		return Version{}, err
	}
	v, readErr := r.Resolve(ref.Name + "@" + string(e.desc.Digest))
	return v, errors.Join(err, readErr)
}

// manifest fetches the manifest of a model, through an index that has one alone.
func (p *peer) manifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	for depth := 0; ; depth++ {
		desc, body, err := p.repo.Manifests().FetchReference(ctx, reference)
		if err != nil {
			return desc, nil, err
		}
		data, err := io.ReadAll(io.LimitReader(body, maxManifestBytes+1))
		body.Close()
		if err != nil {
			return desc, nil, err
		}
		if got := digest.FromBytes(data); got != desc.Digest || strings.HasPrefix(reference, "sha256:") && string(got) != reference {
			return desc, nil, fmt.Errorf("%w: the manifest's bytes have the digest %s, and the registry says %s", ErrCorrupt, got, desc.Digest)
		}
		var kind struct {
			MediaType string               `json:"mediaType"`
			Manifests []ocispec.Descriptor `json:"manifests"`
		}
		if err := json.Unmarshal(data, &kind); err != nil {
			return desc, nil, fmt.Errorf("%w: its manifest: %w", ErrFormat, err)
		}
		if len(kind.Manifests) > 0 {
			if len(kind.Manifests) != 1 || depth > 0 || checkDigest(kind.Manifests[0].Digest) != nil {
				return desc, nil, fmt.Errorf("%w: it is an index of %d manifests; pull one of them by its digest", ErrFormat, len(kind.Manifests))
			}
			reference = string(kind.Manifests[0].Digest)
			continue
		}
		if !isManifest(desc.MediaType) { // some registries say text/plain
			desc.MediaType = cmp.Or(kind.MediaType, ocispec.MediaTypeImageManifest)
		}
		return ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: int64(len(data))}, data, nil
	}
}

// file is where a blob can be downloaded.
func (p *peer) file(b ocispec.Descriptor) hub.File {
	scheme := "https"
	if p.repo.PlainHTTP {
		scheme = "http"
	}
	ref := p.repo.Reference
	return hub.File{
		URL:  fmt.Sprintf("%s://%s/v2/%s/blobs/%s", scheme, ref.Host(), ref.Repository, b.Digest),
		Name: string(b.Digest), Size: b.Size, SHA256: b.Digest.Encoded(),
	}
}

// wanted is a blob that is to be here.
type wanted struct {
	digest digest.Digest // empty: it is not known before the bytes are here
	size   int64         // 0 beside an empty digest: as above
	file   hub.File
}

// bring makes blobs of downloads, and gives their digests.
func (in *ingest) bring(ctx context.Context, d *hub.Downloader, list []wanted, room Room, progress Progress) ([]digest.Digest, error) {
	var total, coming int64
	for _, w := range list {
		total += w.size
		if w.digest != "" {
			if here, err := in.has(ctx, w.digest, w.size); err != nil {
				return nil, err
			} else if here {
				continue
			}
		}
		coming += w.size
	}
	if _, err := in.registry.Evict(ctx, room.Bytes, coming, room.Keep); err != nil && coming > 0 {
		return nil, err
	}
	var done int64
	digests := make([]digest.Digest, len(list))
	for i, w := range list {
		before := done
		got, size, err := in.download(ctx, d, w, func(n, of int64) {
			done = before + n
			if progress != nil {
				progress(done, max(total, done, before+of))
			}
		})
		if err != nil {
			return nil, err
		}
		digests[i], done = got, before+size
	}
	return digests, nil
}

// download makes one blob of a download. The lock lets one process at a time transfer the same; the others wait, and
// find the blob.
func (in *ingest) download(ctx context.Context, d *hub.Downloader, w wanted, progress func(done, total int64)) (digest.Digest, int64, error) {
	if w.digest != "" {
		if here, err := in.has(ctx, w.digest, w.size); err != nil || here {
			return w.digest, w.size, err
		}
	}
	key := digest.FromString(w.file.URL).Encoded()
	if w.digest != "" {
		key = w.digest.Encoded()
	}
	path := in.registry.path(ingestFolder, "pull-"+key)
	lock, err := lockPath(ctx, path+".lock", true)
	if err != nil {
		return "", 0, err
	}
	defer lock.Close()
	if w.digest != "" {
		if here, err := in.has(ctx, w.digest, w.size); err != nil || here {
			return w.digest, w.size, err
		}
	}
	sum, err := d.Get(ctx, w.file, path, progress)
	if err != nil {
		return "", 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	got := digest.NewDigestFromEncoded(digest.SHA256, sum)
	if err := in.place(ctx, f, got); err != nil {
		return "", 0, err
	}
	_ = os.Remove(path + ".lock") // who waits for it finds the blob
	return got, info.Size(), nil
}

// Fetch is a version to be made of files that a hub has.
type Fetch struct {
	Name     string // alias that it gets here, NAME:TAG
	Source   string // what was asked for
	Files    []hub.File
	Revision string
	// Describe says what the first file is, or why it is nothing that weir reads.
	Describe func(path string) (Facts, error)
	Do       func(*http.Request) (*http.Response, error)
	Room     Room
	Progress Progress
}

// Fetch downloads the files of a model into a new version and points an alias at it, with what Pull promises of cuts,
// checks and several processes.
func (r *Registry) Fetch(ctx context.Context, f Fetch) (Version, error) {
	ref, err := ParseRef(f.Name)
	if err != nil {
		return Version{}, err
	}
	wrong := func(err error) (Version, error) { return Version{}, fmt.Errorf("pull %s: %w", f.Source, err) }
	in, err := r.newIngest(ctx)
	if err != nil {
		return wrong(err)
	}
	defer in.Close()
	list := make([]wanted, len(f.Files))
	for i, file := range f.Files {
		list[i] = wanted{size: file.Size, file: file}
		if file.SHA256 != "" {
			list[i].digest = digest.NewDigestFromEncoded(digest.SHA256, file.SHA256)
		}
	}
	digests, err := in.bring(ctx, &hub.Downloader{Do: f.Do}, list, f.Room, f.Progress)
	if err != nil {
		return wrong(err)
	}
	im := Import{Name: f.Name, From: f.Source, Record: Record{Lineage: &Lineage{Source: f.Source, Revision: f.Revision}}}
	if im.Facts, err = f.Describe(r.blobPath(digests[0])); err != nil {
		return wrong(err)
	}
	files := make([]File, len(f.Files))
	for i, file := range f.Files {
		info, err := os.Stat(r.blobPath(digests[i]))
		if err != nil {
			return wrong(err)
		}
		files[i] = File{Role: Weights, Name: file.Name, Digest: digests[i], Size: info.Size()}
	}
	e, err := in.seal(ctx, ref.Name, files, &im)
	if err != nil {
		return wrong(err)
	}
	return r.finish(ctx, in, e, ref)
}
