package state

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/envelope"
	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/telemetry/audit"
)

// pepperEnd is behind the path of a SQLite file in that of its pepper.
const pepperEnd = ".pepper"

// Pepper is the pepper of the store's keys: the setting, or what stands in a file
// beside the SQLite file, where the first who needs it makes one.
func Pepper(c configs.Store) (tenant.Pepper, error) {
	if c.KeyPepper != "" {
		return tenant.NewPepper([]byte(c.KeyPepper))
	}
	address, err := URL(c)
	if err != nil {
		return tenant.Pepper{}, err
	}
	path, found := strings.CutPrefix(address, SqliteScheme)
	if !found {
		return tenant.Pepper{}, errors.New("store.key_pepper is not set; weirs that share a database need the same one: " +
			"set WEIR_KEY_PEPPER to a secret of at least 32 bytes, such as openssl rand -hex 32 gives")
	}
	path += pepperEnd
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if made, wrong := os.Stat(strings.TrimSuffix(path, pepperEnd)); wrong == nil && made.Size() > 0 {
			return tenant.Pepper{}, fmt.Errorf("the pepper of the keys is missing: there is a store, and no %s beside it, without which none of its keys and texts can be read; "+
				"put the file back from its copy, or set WEIR_KEY_PEPPER if the store was made with that", path)
		}
		text, err = makePepper(path)
	}
	if err != nil {
		return tenant.Pepper{}, fmt.Errorf("the pepper of the keys: %w", err)
	}
	return tenant.NewPepper([]byte(strings.TrimSpace(string(text))))
}

// auditOf is how the audit log of the store is keyed, and where its head is noted: the setting's file, one beside
// the SQLite file, or one in the state directory, where there is one.
func auditOf(c configs.Store, pepper tenant.Pepper) (auditlog.Options, error) {
	secret, err := pepper.Derive("audit log")
	if err != nil {
		return auditlog.Options{}, err
	}
	a := auditlog.Options{Key: audit.NewKey(secret)}
	if c.AuditHead != "" {
		a.Heads = audit.NewHeads(c.AuditHead)
		return a, nil
	}
	address, err := URL(c)
	if err != nil {
		return a, err
	}
	if path, found := strings.CutPrefix(address, SqliteScheme); found {
		a.Heads = audit.NewHeads(path + ".audit-head")
		return a, nil
	}
	dir, err := stateDir()
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return a, nil //nolint:nilerr // the server says that no head is noted
	}
	if u, err := url.Parse(address); err == nil {
		u.User = nil // one database for all that ask
		sum := sha256.Sum256([]byte(u.String()))
		a.Heads = audit.NewHeads(filepath.Join(dir, "audit-head-"+hex.EncodeToString(sum[:8])))
	}
	return a, nil
}

// makePepper writes a new pepper whole or not at all, and takes that of the process that was
// faster.
func makePepper(path string) ([]byte, error) {
	secret := make([]byte, tenant.MinPepperBytes)
	_, _ = rand.Read(secret) // it never fails
	file, err := os.CreateTemp(filepath.Dir(path), ".pepper-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // under its own name it stays
	_, err = file.WriteString(hex.EncodeToString(secret) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}

// dataKeysOf is what encrypts the texts that the store keeps: the master keys of the setting, or one derived from the
// pepper, and where the data keys are.
func dataKeysOf(c configs.Store, pepper tenant.Pepper) (store.Keys, error) {
	names := c.MasterKeys
	if len(names) == 0 {
		names = []string{configs.MasterPepper}
	}
	k := store.Keys{URL: c.DataKeys}
	for i, name := range names {
		master, err := masterOf(name, pepper)
		if err != nil {
			return k, fmt.Errorf("store.master_key, entry %d: %w", i+1, err)
		}
		k.Masters = append(k.Masters, master)
	}
	if k.URL == "" {
		address, err := URL(c)
		if err != nil {
			return k, err
		}
		if strings.HasPrefix(address, SqliteScheme) {
			k.URL = address + ".keys"
		}
	}
	return k, nil
}

// masterOf is a master key by its entry in the setting.
func masterOf(name string, pepper tenant.Pepper) (*envelope.Master, error) {
	if command, found := strings.CutPrefix(name, configs.MasterCommand); found {
		return envelope.NewCommand(strings.Fields(command))
	}
	secret := []byte(name)
	var err error
	if path, found := strings.CutPrefix(name, configs.MasterFile); found {
		if secret, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		secret = []byte(strings.TrimSpace(string(secret)))
	} else if name == configs.MasterPepper {
		if secret, err = pepper.Derive("master key"); err != nil {
			return nil, err
		}
	}
	return envelope.NewSecret(secret)
}
