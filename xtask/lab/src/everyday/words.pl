# Words of a text: counted, matched, changed and sorted.
use strict;
my (%count, $matches);
open my $text, '<', 'text.txt' or die $!;
while (my $line = <$text>) {
    chomp $line;
    $count{$_}++ for split / /, $line;
    $matches++ while $line =~ /([aeiou])[a-z]\1/g;
    $line =~ s/(\w+)or\b/<$1>/g;
    $matches += length $line;
}
my @most = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "$matches @most[0..9]\n";
