//go:build !linux

package disk

func claim(from, to string) error { return rename(from, to) }
