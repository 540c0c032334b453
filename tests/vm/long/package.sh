# SPDX-License-Identifier: GPL-2.0-only
# The Debian package under systemd, on a machine with RDT: installed, started, upgraded, killed, removed.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
deb=$(tools/package)
if command -v lintian > /dev/null; then
	lintian --allow-root --info --fail-on error "$deb" | tee "$out/lintian" || fail "lintian found errors"
else
	say "lintian is not installed, so it was not run"
fi
# The same files under a later version.
rm -rf "$out/newer" "$out"/*.deb
cp "$deb" "$out/older.deb"
dpkg-deb --raw-extract "$deb" "$out/newer"
sed -i 's/^Version: .*/&+newer/' "$out/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip --build "$out/newer" "$out/newer.deb" > /dev/null
rm -r "$out/newer"
vm --systemd --machine thesis --memory 4G --timeout 1200 -- \
	bash tests/vm/guest/package.sh "$out/older.deb" "$out/newer.deb" "$bin/drfq-load"
