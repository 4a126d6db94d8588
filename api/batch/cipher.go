package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Cipher encrypts what is kept of tenants on the disk. Methods may be called concurrently.
type Cipher interface {
	// EncryptFile encrypts what is written into w, as a file of a tenant. key is the id of a key, or "" for the
	// tenant's newest; used is the one that encrypts it. Close ends the file, and leaves w open.
	EncryptFile(ctx context.Context, tenant, id, key string, w io.Writer) (out io.WriteCloser, used string, err error)
	// DecryptFile reads what EncryptFile wrote. ErrUnknown: its key was destroyed.
	DecryptFile(ctx context.Context, tenant, id string, r io.Reader) (io.Reader, error)
	// EncryptLine and DecryptLine are for the answer to one line of a batch.
	EncryptLine(ctx context.Context, tenant, batch string, index int, text []byte) ([]byte, error)
	DecryptLine(ctx context.Context, tenant, batch string, index int, sealed []byte) ([]byte, error)
}

// encryptedEnd ends the names of encrypted files. The same id without it is a file that an earlier weir has left in
// clear.
const encryptedEnd = ".age"

// openFile is the text of a file.
type openFile struct {
	io.Reader
	io.Closer
}

// open reads a file of a tenant.
func (f *folder) open(tenant, id string) (io.ReadCloser, error) {
	file, err := os.Open(f.file(id) + encryptedEnd)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = os.Open(f.file(id))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrNotExist) { // encrypted in between, or gone
			file, err = os.Open(f.file(id) + encryptedEnd)
		}
	}
	if err != nil {
		return nil, err
	}
	if f.cipher == nil {
		return nil, errors.Join(fmt.Errorf("the file %s is encrypted, and there is no key", id), file.Close())
	}
	ctx, cancel := storeContext()
	defer cancel()
	text, err := f.cipher.DecryptFile(ctx, tenant, id, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return openFile{text, file}, nil
}

// encrypt lets a draft encrypt what is written to it from now on.
func (d *draft) encrypt(tenant, id, key string) error {
	if d.folder.cipher == nil {
		return nil
	}
	ctx, cancel := storeContext()
	defer cancel()
	var err error
	if d.sealed, d.key, err = d.folder.cipher.EncryptFile(ctx, tenant, id, key, d.file); err == nil {
		d.out.Reset(d.sealed)
	}
	return err
}

// lineCipher encrypts the lines of one batch.
type lineCipher struct {
	cipher        Cipher
	tenant, batch string
}

func (l *lineCipher) encrypt(index int, text []byte) ([]byte, error) {
	ctx, cancel := storeContext()
	defer cancel()
	return l.cipher.EncryptLine(ctx, l.tenant, l.batch, index, text)
}

func (l *lineCipher) decrypt(index int, sealed []byte) ([]byte, error) {
	ctx, cancel := storeContext()
	defer cancel()
	return l.cipher.DecryptLine(ctx, l.tenant, l.batch, index, sealed)
}

// lines is the cipher of a batch's journal; nil: it is in clear.
func (f *folder) lines(b *Batch) *lineCipher {
	if f.cipher == nil {
		return nil
	}
	return &lineCipher{f.cipher, b.Tenant, b.ID}
}

// EncryptFiles encrypts the files of a folder that an earlier weir has left in clear, and returns how many. It may be
// broken off, and run beside servers that use the folder.
func EncryptFiles(ctx context.Context, dir string, store Store, cipher Cipher) (count int, err error) {
	f, err := openFolder(dir, cipher)
	if err != nil {
		return 0, err
	}
	return f.encryptClear(ctx, store)
}

// EncryptClear encrypts the files that an earlier weir has left in clear.
func (s *Server) EncryptClear(ctx context.Context) (count int, err error) {
	if s.folder == nil || s.folder.cipher == nil {
		return 0, nil
	}
	return s.folder.encryptClear(ctx, s.config.Store)
}

// encryptClear encrypts the files that the store knows. Those whose names it has not encrypted yet have
// no key and wait for the next time.
func (f *folder) encryptClear(ctx context.Context, store Store) (count int, err error) {
	ids, err := f.clearFiles()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		file, err := store.AnyFile(ctx, id)
		switch {
		case errors.Is(err, ErrUnknown) || err == nil && file.DataKey == "":
			continue
		case err != nil:
			return count, err
		}
		switch err := f.encryptFile(file); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrUnknown): // deleted, or forgotten, in between
		case err != nil:
			return count, fmt.Errorf("encrypt the file %s: %w", id, err)
		default:
			count++
		}
	}
	return count, nil
}

// encryptFile writes the encrypted file beside the other one, and then deletes that: at each moment one is whole.
func (f *folder) encryptFile(file File) error {
	in, err := os.Open(f.file(file.ID))
	if err != nil {
		return err
	}
	defer in.Close()
	d, err := f.create()
	if err != nil {
		return err
	}
	defer d.discard()
	if err := d.encrypt(file.Tenant, file.ID, file.DataKey); err != nil {
		return err
	}
	if _, err := io.Copy(d, in); err != nil {
		return err
	}
	if err := d.publish(file.ID); err != nil {
		return err
	}
	return os.Remove(f.file(file.ID))
}
