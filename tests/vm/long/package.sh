# SPDX-License-Identifier: GPL-2.0-only
# The packages under systemd, on a machine with RDT: installed, started, upgraded, killed, removed.
# shellcheck source=tests/vm/lib.sh
. tests/vm/lib.sh
command -v lintian > /dev/null || fail "lintian is missing; install Debian's package lintian"
command -v rpmbuild > /dev/null || fail "rpmbuild is missing; install Debian's package rpm"
deb=$(tools/package)
lintian --allow-root --info --fail-on error "$deb" | tee "$out/lintian" || fail "lintian found errors"
# The same files under a later version.
rm -rf "$out/newer" "$out"/*.deb
cp "$deb" "$out/older.deb"
dpkg-deb --raw-extract "$deb" "$out/newer"
sed -i 's/^Version: .*/&+newer/' "$out/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip --build "$out/newer" "$out/newer.deb" > /dev/null
rm -r "$out/newer"
life_of() {
	vm --systemd --machine thesis --memory 4G --timeout 1200 -- \
		bash tests/vm/guest/package.sh "$1" "$2" "$bin/drfq-load"
}
life_of "$out/older.deb" "$out/newer.deb"

rm -f "$out"/*.rpm
for release in 1 2; do
	mv "$(DRFQ_RPM_RELEASE=$release tools/package rpm)" "$out/$release.rpm"
done
! command -v rpmlint > /dev/null || rpmlint "$out/1.rpm" packaging/rpm/scx-drfq.spec | tee "$out/rpmlint" || :
life_of "$out/1.rpm" "$out/2.rpm"
