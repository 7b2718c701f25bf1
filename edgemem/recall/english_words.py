"""English words: ordinary ones that are neither names nor among the commonest, so that none is taken for a misheard name."""

from __future__ import annotations

from edgemem.provisions import provided
from edgemem.recall.common_words import COMMON_WORDS

_ORDINARY = """
abbey ability absence absolute academy accent accept access account ache achieve acid acquire acre action active actor
actress actual adapt adder addition adjust admire admit adopt adult advance advantage adventure advert advice affair
affect afford afraid africa agency agenda agent agreement ahead aid aim aircraft airline airport aisle album alcohol
alert alien alley ally alphabet altar alternative amaze ambition ambulance america among amuse analysis anchor ancient
angel anger angle ankle anniversary annoy annual anxious anywhere apologise apology apparent appeal appear applause
application apply approach appropriate approve apron aquarium arabic arch architect area argue argument arise ark
armchair army arrange arrest arrow article artist ascent ash ashamed asia aside aspect assemble asset assign assist
associate assume assure athlete attack attempt attend attention attic attitude attract audience auntie australia
author available average avoid aware awful awkward axe babysitter backyard bacon badge badly bagel baggage bait baker
bakery bald ballet ballot balm bamboo ban bandage bang banner bare bargain barley barn baron barrel barrier base basic
basin basis bat batch batter battle bay beach bead beaks beam beard beast beaten beaver bedside bedtime beef beeping
beg begun behave behaviour belief belt bench bend benefit bent berlin berry berth beyond bicycle bid bind birdsong
biscuit bishop bison bitten bitter blackboard blade blame blast blaze bleed blend bless blew blind blink bliss block
blond bloom blossom blouse blown blunt boast boiler bold bolt bomb bond bone bonsai bonus bookcase bookshelf boost
booth booze border borscht bother bounce boundary bow bracelet brag brake branch brand brass brave breath breed breeze
brew brick bridal bride bridge brief bright brighter brilliant britain broad broadcast broom broth brow bruise brunch
bubble bucket bud budget bug builder bulb bulk bull bullet bump bumper bunch bundle bunk bunny burden burglar burst
bury bush butcher butler butterfly buttermilk buyer buzz cab cabbage cabin cactus cafe cage calculate calf caller
campus canal cancel cancer candidate candy cane canoe canon canvas cap capable capacity capital cappuccino captain
capture caravan career caretaker cargo carnival carpenter carriage carrier cart cartoon carve cash cashews cast castle
casual catalogue cater cattle caution cave cedar celebrate celery cello cement cemetery cent centimetres central
centre century cereal ceremony certain certainly certificate chai chain chainsaw chalk challenge champ champion
channel chant chaos chap chapter character charades charger charity charm chart chase chat cheat cheek cheer chemical
chemist chemistry cherry chess chest chew chickpea chief chili chill chilly chime chimney chin china chinese choice
choir choke chop chore chosen christening christmas chuckle chunk church cider cigarette cinder cinema cinnamon circle
circuit circumstance circus cite citizen civil claim clam clamp clap clash classic classroom claw clay cleaner clerk
clever click client cliff climate clip cloak clove clover clown clue clump cluster coach coal coarse coast coastal
cobra cocoa coconut coin cola collar colleague collect college colt column comb combine comedy comet comfort comic
comma command comment commercial commit common community compare comparison compete competition complain complaint
complete complex complicated compliment compost comprehend compute concentrate concept concern concert conclude
conclusion concrete condition cone conference confident confirm conflict confuse connect conscious consider console
construct consult contact contain content contest context continue contract contrast contribute control convenient
conversation convert convince cookbook cooker cooler copper cops coral cord cordless core coriander cork correct
costume cot cottage cotton council counter coupon courage courier cow cozy crab crack cradle craft cramp crane crash
crate crawl crazy create creative creature creek creep crept crest crew cricket cries crime criminal crisis crisp
critic croissant crook crop crossword crowd crown crucial cruel cruise crumb crunch crush crust crutch crystal cube
cuckoo cucumber culture cumin cupcake curb cure curious curl currency current curry curve cushion cute cutter cycle
daily dairy dam damage damn damp dancer danger danish dare darkroom darling dash database daze deadline deaf dealer
dealt dearest death debate debt decade decay decent decision deck declare decline decorate deer defeat defence defend
define definitely delay delete delicate delicious delight deliver demand den dense dent deny depart departure depend
deposit depot depth dermatologist describe desert deserve design desire desperate despite destroy detail detect
detector develop device devil devote dew diagram dial diamond diary dice dictionary die difficult difficulty dig digit
dim dine diploma direct director dirt disagree disappear disappoint disaster disc discount discover discuss disease
disgust dislike display distance distant district disturb ditch dive diver divide divorce dizzy dock document dodge
dole doll dolphin dome dominoes donate donkey donor doorbell dose dot dough dove drag dragon drain drama dramatic
drank drape drawn dreadful dreamt drew drift drill drip driven drone drown drug drum drunk duchess duck duel duke dull
dump dune dusk dutch dye eagle ease easily easter eaten echo edge edit editor educate eel effect effort eighth elder
elderly elect electric electrician element elephant elevator elf elm embarrass emergency emotion employ employee
employer encounter encourage enemy engage england enormous ensure entertain enthusiasm entrance entry envelope
environment envy episode equal equipment error escape especially espresso essay essential establish estate estimate
euro europe eventually everywhere evidence evil exact examine excellent exchange exhibition exist exit expand
experience expert explanation explode explore export expose express extend extension extent extraordinary extreme
fable fabric facility factor factory fade fail failure faint fair fairly fairy faith fake fallen fame familiar famous
fancy fang fantastic fare farmer fashion fasten fate fault favour fawn fax feast feat feather feature fed federal fee
felt female fennel fern ferry festival fetch feud fiction fiddle field fierce fifth fig figure file fin finance
financial finnish fir fireplace firewood firm fist flag flake flame flap flare flash flashlight flask flavour flaw
flea fleet flesh flew flick flicker flies fling flip float flock flood floorboard flop flow flown flu fluff fluid
flush flute flytrap foal foam focus fog foil folder folk folly fond font fool football footwear force ford foreign
forgotten form formal former formula fort forth fortnight fortune fossil foundation fountain fourth fowl fox frail
frame france fraud freak freedom freeze french frequent fret friendly friendship frighten frog frost froze frozen fry
fuel fulfil fume function fund funeral fur fuse fuss gadget gag gain gale gallery gang gap garlic gasp gather gaze
gear geese gem gender general genius gentle gentleman genuine german germany ghost giant gill gin ginger glance glare
gleam glide global globe gloom gloomy glory glow gnaw goat godfather godmother golden goldfish goose gospel gossip
gotten goulash government gown grab gradually grain grand grandchild granddaughter grandparents grandson granny grape
graph grasp grate grave gravestone gravity gravy graze grease greece greed greek greenhouse greet grief grill grim
grin grind grip gripe grit groan grocer groom gross grove growl grown grub grunt guarantee guard guidance guide guilt
guilty guinea gulf gull gulp gum gun gust gut gutter habit hail haircut hairdryer halloween ham hamburger hammer
handbag handball handy harbor harbour hardly hardware hare harm harp harsh harvest haste hatch haul hawk hay haze
hazelnut headache heal healthy heap heaven hedge hedgehog heel heir helicopter hell helm helmet hen herb herd hero
heron hesitate hidden highlight highway hike hindi hint hip hire hiss historic history hive hoard hog hoist hole
hollow holy honeymoon honour hood hoof hook hoop hoot hop horn horoscope horrible horror hose host hound household
housewarming housewife hover howl hub hug huge hull hum human humid hummus humour hunger hunt hunter hurl hut icon
ideal identify identity idiot idle idol ignore ill illegal image imagine immediate impact impatient impress improve
incident include income increase incredible indeed independent index india indicate individual industry infection
influence inform ingredient inhaler injure injury ink inn inner innocent insect inspect inspector inspire install
instance instant instruction instructor instrument insult insurance intelligent intend intention interview introduce
invent invest investigate involve ireland issue italian italy item jail japan japanese jar jaw jazz jealous jelly jerk
jet jewel jewellery jog joint jolt journal journalist journey judge judgement judo jug juggle junction jungle junior
junk jury justice keel keen keeper kept ketchup keyboard kidney kin kingdom kiosk kiss kit kite kitten knelt knight
knit knob knot known korean label labour lace lack lad lag laid lair lamb lampshade lance lane lantern lap lard
lasagne laser lash latch latest lather latin latte latter launch lavender lawyer layer leader leaf leaflet league lean
leap leapt lease leash leather lecture led ledge leek legal legend leisure lemonade lend length lens lent letterbox
level lever liar liberty lice licence lid lighter lighthouse limb lime limit limp lint lion lipstick liquid lithium
litter liver load loaf lobby lobster local location lodge lodger loft log login london loom loop loose lord lore lorry
lottery lounge lover lower lowest loyal luggage lump lung lupin lure lurk luxury mad madrid magic magnet maid mailbox
mainly maintain major maker male mall mane mango manner mansion manual maple marathon marine marriage mars marsh
marvellous mash mass massive mast master match mate material maths mattress mature maximum mayonnaise mayor maze mead
meadow meant meanwhile measure mechanic medal media melon melt memo mend mental mention mercy merely merge meringue
merit merry method metre mice microwave midnight mild military mill mince mine mineral minimum minister minor mint
miracle misery mission mist mistake mite mitten mix mixture moan moat mob mode model modern modest moisture mole
monitor monk monkey monster monstera moose mop moral mosquito moss moth motion motor motorbike motto mould mound mount
mourn mud muesli muffin mule murder muscle museum mushroom mustard mute mystery myth naked nanny napkin narrow nasty
nation native nature naughty navy neat necessary nectar needle negative neglect neighbourhood nerve nest net network
newspaper nib nickname nineteenth noble nod noisy nonsense noodle nook normal north norwegian notebook notice noun
novel nowadays nowhere nuclear nudge nuisance numb numerous nursery oak oar oat oath obey object observe obtain
obvious obviously occasion occupy occur ocean odd offer office official often older omelette omen onto opal opera
operate opinion opponent opportunity oppose opposite optician option oral orb orchard orchid ordinary organ organise
origin orphan orthodontist otherwise otter ought ounce outdoor outer outline outstanding oval overall overcome
overnight owl owner oxygen pace package packet pact pad paddle pagan pail pal palace pale palm pancake panda pane
panel pang panic paperwork paprika par parade paragraph pardon paris parish parliament parlor parrot parsley
participate particular particularly partner passage passenger passion passport pastry patch patience patient patio
pattern pause pavement paw pea peach peak pearl peat pebble peck pedal peel peer peg pellet penalty per perform
perfume period permanent permission permit persuade pest pesto petal pew phrase physics physiotherapist pickle picnic
pie pier pig pigeon pike pile pillar pillow pilot pimple pinch pine pineapple pint pipe pirate pit pitch pity plague
plaid plain planet plank plaster plastic platform playground plea pleasure pleat pledge plenty plot plough plow pluck
plum plumber plunge plural ply poem poet poetry poison poke poland pole polish polite poll pollution pond pony pop
pope popular population porch pore pork porridge port portion portrait portuguese pose posh position possess poster
pottery pouch poultry pour poverty powder practise praise prank prawn pray prayer preach precious precise predict
pregnant prepare presence preserve president pressure pretend prevent previous prey pride priest primary prime prince
princess principal principle printer prior prison private prize probe procedure process prod produce product
profession professor profit progress prohibit prone proof prop proper properly property propose prose protect protest
proud prove provide prune pub public publish pudding pulp pulse pump pumpkin punch punish pupil puppet purchase pure
purpose purse pursue pyjamas quack quail quake quality quantity queen quest queue quilt quiz quote rabbit racket
radiator raffle raft rag rage raid rail railway rainbow raincoat rainy raise rake ramp ranch rang rank rant rap rapid
rare rash rat rate rave ravioli raw razor react reaction reader realise reality realize realm rear receipt receive
recent recognise recommend record recover recycle reduce reed reef reel refer reflect refuse regard region register
regret rein reject relate relationship relative relax release relevant relic relief religion rely remain remark remove
renew replace report represent republic request require rescue research reserve resident resist resort resource
respect respond responsible result retire reveal revenge reverse review reward rhyme rhythm rib ribbon riddle ridge
ridiculous rifle rim rink rinse riot rip ripe ripple rise risen risk risotto rite rival roam roar roast robe rocket
rogue role roll romantic rome romp rookie rooster rosemary rot rotten roughly route routine royal rub rubber rubbish
rude rug ruin ruler rum rumor rumour rung rush russia russian rust rye sack sacrifice saddle safety saffron sage sail
sailor saint sake salary salmon sample sandal sandwich sane sash satellite satisfied saucer sauna sausage scale scalp
scan scar scare scarf scatter scene scent schedule scheme science scientist scold scoop scooter scope scorn scotland
scout scrap scrape scratch scream screen screw screwdriver script scrub seal seam search season secretary section
secure seize select selfish sender senior sense sensible sensitive sensor sent sentence separate sequel series
seriously sermon servant service session settle seventh sew sexual shack shaft shake shaken shallow shame shampoo
shark sharpen shave shawl shear sheep shell shelter shelves shield shift shin shiver shock shoebox shoelace shoot
shore shortage shortly shove shovel shown shred shrimp shrink shrub shrug shutter siege sigh sight signal signature
significant silence silent silk silly silt similar simply sin sip sir siren site situation sixteenth sixth skate ski
skill skip skirt skull skylight slab slack slam slap slash slate slave sled sledge sleek sleepy sleet sleeve slept
slew slide slight slightly slim sling slip slipper slit slope slot slower slug slum slump smack smash smear smog smug
snail snake snap snare snatch sneak sneeze sniff snip snob snore snout snowman snug soak soar sob sober social society
socket sod software soil solar soldier sole solid solo solution solve someplace somewhat somewhere soot sorrow souffle
soul sour source sourdough sow spade spain span spanish spare spark speaker spear specific speck speech spent spider
spike spill spin spine spiral spirit spit splash splendid split spoil spoken sponge sprain spray spread sprint spur
spy squad squash squat squeak squeal squeeze squirrel stab stable stack stadium staff stain stairway stake stale stalk
stall stamp standard staple stapler stare stark starve stash statement stationary statue stead steady steak steal
steam steel steep steer stem stern stew sticky stiff sting stink stir stitch stock stole stolen stone stool stoop
stork stout strain strand strange stranger strap straw strawberry stray stream strength stress stretch strict stride
strike string strip stripe stroke stroll strongbox structure struggle stub stubborn stuck studio stump stun stunt
stupid style subject substance suburb suburban succeed success suck sudden suddenly suffer sufficient suggest suitable
suitcase sum sundial sunk sunlight sunset sunshine super supply surface surgery surname surround survey survive sushi
suspect swallow swamp swan swap swarm sway swear sweat swedish sweep swell swept swift swing swirl swollen sword sworn
symbol sympathy symptom system tab tablecloth tack tail tailor tale talent tame tan tangle tar target tariff tart task
tattoo taunt tavern tax taxi teapot tear tease teaspoon technical technician technique technology telephone telescope
television temple tempt tend tennis tension tent tenth term terrify territory terror thaw theatre theft theme theory
therapy therefore thick thief thigh thin third thirteenth thirtieth thorn thorough thread threat threaten thrill
throne thrown thud thug thumb thump thunder thyme tick tide tidy tiger tile tilt timber timetable tin tint tiramisu
tissue title toad toaster tobacco tofu toil token toll tomb ton tone tongue toolbox toothbrush toothpaste torch torn
tortoise toss tough tour tourist tournament tow tower trace track tractor trade tradition traffic trail trait tram
tramp transfer transform translate transparent transport trap tread treasure treat treatment trench trend trial
triangle tribe trick trim triumph troll troop tropical trot trout trowel truce trunk tub tube tuck tug tulip tumble
tuna tune tunnel turf turkey turkish turmeric turtle tusk twentieth twig twin twirl twist typewriter typical tyre
ultimate unable uncomfortable unfair unfortunately unhappy uniform union unique unit universe unless unlikely unlock
unpack unusual upper upset urban urge urgent vaccine vague vain vale valley valuable value valve van vane vanilla
vanish variety various vase vast vault vehicle veil vein velvet vent venue verse version vest vet veterinarian via
victim victory vietnamese vine violence violent violin virus visa visible vision visitor vitamin vocabulary voicemail
volcano volt volume volunteer vote vow voyage wade waffle wag wage wager wail waist waiter waitress wales wallpaper
walnut walrus wand wander wane ward wardrobe ware warehouse warmth warp wart washbasin wasp waterfall wave wax wealth
weapon weave web wedding wedge weed weekday weep weigh weird western whale wharf wheat wheelchair whereabouts whim
whine whip whirl whisk whisper whistle wick widow width wig willing wilt windowsill wing wink wipe wire wisdom wise
wit witch woken wolf womb wool workbench workshop worktop worm wound woven wrap wrath wreath wreck wren wring wrist
wristwatch writer written yawn yeast yell yelp yoghurt yogurt yolk youth zeal zebra zinc zip zone
"""


_ENDINGS = ("s", "es", "d", "ed", "ing", "er", "r", "ers", "ly", "y", "ies", "ied")


def is_english(word: str) -> bool:
    """Tell whether a word in small letters is an ordinary English one, or a form of one."""
    known = _words()
    if word in known:
        return True
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            root = word[: -len(ending)]
            forms = {root, f"{root}e", f"{root}y", root[:-1] if root[-1:] == root[-2:-1] else root}
            if not known.isdisjoint(forms):
                return True
    return False


@provided
def _words() -> frozenset[str]:
    return COMMON_WORDS.union(_ORDINARY.split())
