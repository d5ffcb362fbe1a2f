s/([a-z]+)or ([a-z]+)/\2 \1/g
s/ka([a-z]*)/\U&/
/^ta/ { s/a/o/g; y/bcd/xyz/ }
